# For the images whose pods name arguments only.
FROM scratch
ARG BINARY
COPY ${BINARY} /command
ENTRYPOINT ["/command"]

import { createRoot } from "react-dom/client";
import { App } from "./app";
import { start } from "./data/store";
import { applyTheme } from "./theme";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/pages.css";

applyTheme();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
start();

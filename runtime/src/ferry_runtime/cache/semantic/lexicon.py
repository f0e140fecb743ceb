"""English words by what they do to a question. Lists of general vocabulary, not of any one domain."""

from __future__ import annotations

CONTRACTIONS = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not", "i'm": "i am",
    "let's": "let us", "what's": "what is", "whats": "what is", "that's": "that is", "dont": "do not",
    "doesnt": "does not", "cant": "can not", "isnt": "is not", "didnt": "did not", "hows": "how is",
    "wheres": "where is", "whens": "when is", "whos": "who is", "im": "i am", "ive": "i have",
}  # fmt: skip

_NEGATORS = """
not no non never none nothing nobody neither nor without cannot except unless hardly barely refuse fail
"""
NEGATORS = frozenset(_NEGATORS.split())

# Say how something is asked, not what: they never decide between two answers.
_FILLERS = """
a an the is are was were be been being am do does did to of for in on at by with from as and or it its i
me my mine we us our you your yours he she they them their this that these those there here please just so
um uh er well ok okay hi hello hey thanks thank wondering wonder quick question tell know want need like
would could should can may might will shall have has had get got what which who whom whose when where why
how if about into any some much many way ways possible possibly let also then than too very really up out
one's 's s m re ve ll d t us im help let's able going go
"""
FILLERS = frozenset(_FILLERS.split())

QUESTION_WORDS = ("when", "where", "who", "why", "which", "how much", "how many", "how long", "how often")

_COUNTS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty
"""
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_COUNTS.split())} | {
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80",
    "ninety": "90", "hundred": "100", "thousand": "1000", "million": "1000000", "dozen": "12", "half": "0.5",
    "first": "1", "second": "2", "third": "3", "fourth": "4", "fifth": "5", "once": "1", "twice": "2",
    "1st": "1", "2nd": "2", "3rd": "3",
}  # fmt: skip

UNITS = {
    "percent": "%", "per cent": "%", "pounds": "gbp", "pound": "gbp", "£": "gbp", "quid": "gbp", "$": "usd",
    "dollars": "usd", "dollar": "usd", "€": "eur", "euros": "eur", "euro": "eur", "kg": "kg", "kilos": "kg",
    "kilo": "kg", "kilograms": "kg", "lb": "lb", "lbs": "lb", "g": "g", "grams": "g", "mg": "mg", "ml": "ml",
    "l": "l", "litre": "l", "litres": "l", "km": "km", "kilometres": "km", "kilometers": "km", "mile": "mi",
    "miles": "mi", "m": "m", "metres": "m", "meters": "m", "cm": "cm", "mm": "mm", "ft": "ft", "feet": "ft",
    "inch": "in", "inches": "in", "celsius": "c", "fahrenheit": "f", "kelvin": "k", "am": "am", "pm": "pm",
    "hour": "h", "hours": "h", "minute": "min", "minutes": "min", "day": "d", "days": "d", "week": "wk",
    "weeks": "wk", "month": "mo", "months": "mo", "year": "y", "years": "y", "gb": "gb", "mb": "mb",
    "tb": "tb", "kb": "kb", "kwh": "kwh", "mph": "mph", "kmh": "kmh", "%": "%", "°": "deg",
}  # fmt: skip

_DATES = """
january february march april june july august september october november december jan feb mar apr jun jul
aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays
wednesdays thursdays fridays saturdays sundays today tomorrow yesterday tonight weekend weekends weekday
weekdays morning afternoon evening night midnight noon christmas easter spring summer autumn fall winter
"""
DATES = frozenset(_DATES.split())
DATE_STEMS = {"jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june",
               "jul": "july", "aug": "august", "sep": "september", "sept": "september", "oct": "october",
               "nov": "november", "dec": "december", "fall": "autumn"}  # fmt: skip

_OPPOSITES = """
on off|enable disable|activate deactivate|open close|open closed|open shut|start stop|start end
start finish|begin end|increase decrease|increase reduce|raise lower|add remove|add delete|include exclude
allow block|allow ban|allowed banned|allowed forbidden|allowed prohibited|permit forbid|accept reject
accept decline|accept refuse|approve reject|approve deny|grant revoke|buy sell|borrow lend|send receive
import export|upload download|upgrade downgrade|install uninstall|subscribe unsubscribe|login logout
sign resign|deposit withdraw|deposit withdrawal|credit debit|income expense|profit loss|win lose
safe dangerous|safe unsafe|legal illegal|good bad|best worst|better worse|benefit drawback
benefits drawbacks|benefits risks|benefit risk|advantage disadvantage|advantages disadvantages|pros cons
pro con|hot cold|warm cool|heat cool|fast slow|faster slower|quick slow|early late|earlier later
earliest latest|before after|first last|old new|oldest newest|young old|big small|bigger smaller
large small|largest smallest|long short|longer shorter|longest shortest|high low|higher lower
highest lowest|maximum minimum|max min|most least|more less|more fewer|many few|up down|in out
inside outside|indoor outdoor|indoors outdoors|left right|north south|east west|northern southern
eastern western|top bottom|front back|above below|over under|entrance exit|enter exit|enter leave
arrive depart|arrival departure|arrivals departures|incoming outgoing|inbound outbound|outward return
single return|sender recipient|employer employee|landlord tenant|buyer seller|lender borrower
teacher student|doctor patient|parent child|adult child|male female|man woman|men women|mother father
husband wife|son daughter|boy girl|public private|online offline|internal external|manual automatic
temporary permanent|full partial|full empty|wet dry|hard soft|light dark|light heavy|day night|gain lose
lock unlock|freeze unfreeze|pause resume|show hide|visible hidden|connect disconnect|attach detach
join leave|hire fire|love hate|like dislike|agree disagree|appear disappear|approve disapprove
optional mandatory|optional required|domestic international|wholesale retail|gross net|fixed variable
cheap expensive|cheaper dearer|cheapest dearest|rich poor|strong weak|positive negative|active inactive
valid invalid|success failure|succeed fail|pass fail|true false|yes no|always never|all none
everyone nobody|with without|eat avoid|use avoid|keep cancel|keep delete|keep remove|keep stop
continue stop|cancel renew|cancel keep|save delete|save spend|mute unmute|follow unfollow|pin unpin
block unblock|hardware software|wired wireless|raw cooked|vegan meat|breakfast dinner|lunch dinner
breakfast lunch|morning evening|summer winter|monthly yearly|monthly annual|weekly monthly|daily weekly
daily monthly|hourly daily|week month|month year|before during|during after|encrypt decrypt
compress decompress|zip unzip|push pull|ascending descending|prevent cause|cure cause|treat cause
harmless harmful|healthy unhealthy|lose find|receive give|give take|ask answer|teach learn|read write
input output|encode decode|lead follow
born die|born died|birth death|taller shorter|wider narrower|thicker thinner|heavier lighter|synonym antonym
simple detailed|briefly detailed|question answer|ancestor descendant|winner loser|victory defeat
"""
OPPOSITES = frozenset(frozenset(pair.split()) for pair in _OPPOSITES.strip().replace("\n", "|").split("|"))
NEGATING_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "de", "mis", "anti")

# Interchangeable in nearly every question; a word stands in one group only.
_SAME = """
cost price fee charge|begin start commence|buy purchase|fix repair mend|end finish|find locate
children kids child kid|film movie|mobile cellphone|holiday vacation|autumn fall|post mail|photo picture
change update alter amend modify|cancel terminate|allowed permitted|send ship dispatch|document paperwork
big large|quick fast|doctor gp physician|sick ill|licence license|cheque check|car vehicle|invoice bill
parcel package|drawback downside disadvantage con|benefit advantage upside pro perk|get obtain receive
contact reach|help assist|refund reimbursement|need require|speak talk|show display|delete erase
register sign|book reserve|near close nearby|join enrol enroll|pay payment|eligible entitled qualify
application apply|postpone delay|supply provide offer|house home|flat apartment
"""
SAME = {
    word: group.split()[0] for group in _SAME.strip().replace("\n", "|").split("|") for word in group.split()
}

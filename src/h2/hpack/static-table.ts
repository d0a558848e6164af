// The static table (RFC 7541 appendix A): fields that both ends know from the start.

/** One entry per line, starting with entry 1; the value follows the first space. */
const TEXT = `:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`;

const lines: readonly string[] = TEXT.split("\n");

/** By index; there is no entry 0. */
export const STATIC_NAMES: readonly string[] = [
  "",
  ...lines.map((line) => line.split(" ", 1)[0] ?? ""),
];
export const STATIC_VALUES: readonly string[] = [
  "",
  ...lines.map((line) => (line.includes(" ") ? line.slice(line.indexOf(" ") + 1) : "")),
];

/** Number of entries; the dynamic table follows them. */
export const STATIC_COUNT = STATIC_NAMES.length - 1;

/** Index of the first entry of each name; further entries of that name follow it. */
export const STATIC_INDEX: ReadonlyMap<string, number> = new Map(
  STATIC_NAMES.map((name, index) => [name, index] as const)
    .slice(1)
    .reverse(),
);

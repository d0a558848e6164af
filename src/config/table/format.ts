// Formats of text: addresses, URLs, names. Each has the description that messages and the reference page use.

import { isIP } from "node:net";

export interface TextFormat {
  /** Completes "wanted …". */
  readonly wanted: string;
  /** An accepted text that is not empty, to stand for a value that is not known. */
  readonly example: string;
  accepts(text: string): boolean;
  /**
   * A regular expression that every accepted text matches, for JSON Schemas; it may match others, too. It must mean the
   * same in JavaScript and in Go, whose Helm reads it.
   */
  readonly pattern?: string;
}

const LABEL = /^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

/** A host name by RFC 1123, with one or more labels. */
function isHostname(text: string): boolean {
  const name = text.endsWith(".") ? text.slice(0, -1) : text;
  return name.length <= 253 && name.split(".").every((label) => LABEL.test(label));
}

/** A host name of several labels, the last of which does not start with a digit. */
function isFqdn(text: string): boolean {
  const last = text.replace(/\.$/, "").split(".").at(-1) ?? "";
  return text.includes(".") && isHostname(text) && /^[A-Za-z]/.test(last);
}

const DIGITS_AND_DOTS = /^[\d.]+$/;

function isHost(text: string): boolean {
  if (text === "") return true;
  return DIGITS_AND_DOTS.test(text) ? isIP(text) === 4 : isHostname(text);
}

/** An IPv6 address, with or without a zone. */
function isIPv6(text: string): boolean {
  const percent = text.indexOf("%");
  if (percent === -1) return isIP(text) === 6;
  return isIP(text.slice(0, percent)) === 6 && /^[\w.~-]+$/.test(text.slice(percent + 1));
}

const HOST_PORT = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/;

function isHostPort(text: string, leastPort: 0 | 1): boolean {
  const found = HOST_PORT.exec(text);
  if (found === null) return false;
  const [, bracketed, bare = "", port] = found;
  if (Number(port) < leastPort || Number(port) > 65_535) return false;
  return bracketed === undefined ? isHost(bare) : isIPv6(bracketed);
}

function isUrl(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i.test(text) || /\s/.test(text)) return false;
  return URL.canParse(text);
}

/** True if a URL has more than scheme, host, port and path: user, password, query or fragment. */
function hasMore(text: string): boolean {
  if (/[?#@]/.test(text)) return true;
  if (!isUrl(text)) return false;
  const { username, password } = new URL(text);
  return `${username}${password}` !== "";
}

/** Paths of socket addresses have at most 107 bytes on Linux and 103 bytes on macOS. */
function isUnixPath(text: string): boolean {
  return text.startsWith("unix:/") && !text.includes("\0") && Buffer.byteLength(text) <= 5 + 103;
}

function isCidr(text: string): boolean {
  const [address = "", bits = "", ...more] = text.split("/");
  const version = isIP(address);
  if (more.length > 0 || version === 0 || !/^\d{1,3}$/.test(bits)) return false;
  return Number(bits) <= (version === 4 ? 32 : 128);
}

const HOST = String.raw`(\[[^\]]+\]|[^:\[\]\s]*)`;
const PORT = String.raw`\d{1,5}`;
const URL_PATTERN = String.raw`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]\S*`;
const PLAIN_URL = String.raw`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s@]+(/[^?#\s@]*)?`;
const FQDN = "[A-Za-z0-9-]+([.][A-Za-z0-9-]+)+[.]?";

export const anyText: TextFormat = {
  wanted: "text",
  example: "words and more",
  accepts: (text) => !text.includes("\0"),
};

export const someText: TextFormat = {
  wanted: "text that is not empty",
  example: "a/b",
  pattern: String.raw`\S`,
  accepts: (text) => text.trim() !== "" && !text.includes("\0"),
};

/** Text that becomes a part of store keys. */
export const keyPart: TextFormat = {
  wanted: "a name without /",
  example: "default",
  pattern: String.raw`^[^/]*[^/\s][^/]*$`,
  accepts: (text) => someText.accepts(text) && !text.includes("/"),
};

export const controlPoint: TextFormat = {
  wanted:
    "empty or the name of a control point: at most 1024 characters, none of them a control character, and no blank at either end",
  example: "é",
  pattern: String.raw`^([^ ]|[^ ][^\n]*[^ ])?$`,
  accepts: (text) => text.length <= 1024 && /^(?! )[^\p{Cc}\uFFFD]*(?<! )$/u.test(text),
};

export const listenAddress: TextFormat = {
  wanted: "host:port, :port, [IPv6%zone]:port or unix:/path (port 0 picks a free one)",
  example: "unix:/run/a.sock",
  pattern: `^(unix:/.+|${HOST}:${PORT})$`,
  accepts: (text) => isUnixPath(text) || isHostPort(text, 0),
};

export const optionalListenAddress: TextFormat = {
  wanted: `empty, ${listenAddress.wanted}`,
  example: listenAddress.example,
  pattern: `^(|unix:/.+|${HOST}:${PORT})$`,
  accepts: (text) => text === "" || listenAddress.accepts(text),
};

export const optionalIp: TextFormat = {
  wanted: "empty or an IP address",
  example: "127.0.0.1",
  pattern: "^[0-9A-Fa-f:.]*$",
  accepts: (text) => text === "" || isIP(text) !== 0,
};

export const hostname: TextFormat = {
  wanted: "a host name without a port",
  example: "sluice.example.com",
  pattern: "^[A-Za-z0-9][A-Za-z0-9.-]*$",
  accepts: (text) => !DIGITS_AND_DOTS.test(text) && isHostname(text),
};

export const bindAddress: TextFormat = {
  wanted: "host:port, :port or [IPv6%zone]:port (port 0 picks a free one)",
  example: "10.0.0.1:3320",
  pattern: `^${HOST}:${PORT}$`,
  accepts: (text) => isHostPort(text, 0),
};

export const hostPort: TextFormat = {
  wanted: "empty or host:port",
  example: "[2001:db8::1]:443",
  pattern: `^(|${HOST}:${PORT})$`,
  accepts: (text) => text === "" || isHostPort(text, 1),
};

const SERVICE_PORT = String.raw`[a-z0-9-]+\.[a-z0-9-]+\.svc\.[a-z0-9][a-z0-9.-]*:\d{1,5}`;

/** The name that the cluster's DNS has for a Service. */
export const serviceAddress: TextFormat = {
  wanted: "empty or NAME.NAMESPACE.svc.DOMAIN:PORT",
  example: "sluice-agent.sluice.svc.cluster.local:8080",
  pattern: `^(|${SERVICE_PORT})$`,
  accepts: (text) =>
    text === "" || (new RegExp(`^${SERVICE_PORT}$`).test(text) && isHostPort(text, 1)),
};

export const address: TextFormat = {
  wanted: "empty, host:port, a URL or a fully qualified name",
  example: "[::1]:443",
  pattern: `^(|${HOST}:${PORT}|${URL_PATTERN}|${FQDN})$`,
  accepts: (text) => text === "" || isHostPort(text, 1) || isUrl(text) || isFqdn(text),
};

export const endpoint: TextFormat = {
  wanted: "host:port, a URL or a fully qualified name, without user, password, query and fragment",
  example: "http://etcd:2379/",
  pattern: `^(${HOST}:${PORT}|${PLAIN_URL}|${FQDN})$`,
  accepts: (text) => text !== "" && address.accepts(text) && !hasMore(text),
};

export const plainEndpoint: TextFormat = {
  wanted: "host:port",
  example: "[::1]:26379",
  pattern: `^(\\[[^\\]]+\\]|[^:[\\]\\s]+):${PORT}$`,
  accepts: (text) => isHostPort(text, 1) && !text.startsWith(":"),
};

export const redisUrl: TextFormat = {
  wanted:
    "redis://host:port or rediss://host:port, with or without a database number, and without user, password, query and fragment",
  example: "rediss://[::1]:6380",
  pattern: String.raw`^rediss?://[^/?#\s@]+(/\d*)?$`,
  accepts(text) {
    if (!/^rediss?:/.test(text) || !isUrl(text)) return false;
    const { hostname, pathname } = new URL(text);
    return !hasMore(text) && hostname !== "" && /^(?:\/?|\/\d+)$/.test(pathname);
  },
};

export const redisNamespace: TextFormat = {
  wanted: "a name without braces",
  example: "team/a",
  pattern: String.raw`^[^{}]*[^{}\s][^{}]*$`,
  accepts: (text) => someText.accepts(text) && !/[{}]/.test(text),
};

export const proxyAddress: TextFormat = {
  wanted: "empty, a URL or host:port",
  example: "proxy:3128",
  pattern: `^(|${URL_PATTERN}|${HOST}:${PORT})$`,
  accepts: (text) => text === "" || isUrl(text) || isHostPort(text, 1),
};

export const noProxyItem: TextFormat = {
  wanted: "an IP address, a CIDR range, a host name, .domain, host:port or *",
  example: "db.internal:5432",
  pattern: String.raw`^([*]|[^\s/]+(/\d{1,3})?)$`,
  accepts: (text) => {
    if (text === "*" || isIP(text) !== 0 || isCidr(text)) return true;
    if (DIGITS_AND_DOTS.test(text) || text === "") return false;
    return isHostname(text.startsWith(".") ? text.slice(1) : text) || isHostPort(text, 1);
  },
};

export const fqdn: TextFormat = {
  wanted: "empty or a fully qualified name such as client.example.com",
  example: "client.example.com",
  pattern: `^(|${FQDN})$`,
  accepts: (text) => text === "" || isFqdn(text),
};

export const labelName: TextFormat = {
  wanted: "a Prometheus label name (letters, digits and _, not starting with a digit)",
  example: "_x1",
  pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
  accepts: (text) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(text),
};

export const memberName: TextFormat = {
  wanted: "the name of a baggage member, not http.* or aperture.*",
  example: "tenant.id",
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
  accepts: (text) => /^(?!http\.|aperture\.)[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(text),
};

// `sluice check`: asks a running agent whether one request may pass. The request is given as flags or as JSON; the
// decision and its reasons are printed in words or as JSON.

import { Fault } from "#base/fault.ts";
import { urlOfServer } from "#base/net/host-port.ts";
import { nearest } from "#base/text/spelling.ts";
import { loadConfig } from "#config/load.ts";
import { EXIT } from "#host/life/run.ts";
import { readTextFileOrPipe } from "#host/life/text-file.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { checkHttpFromJson } from "#wire/check-json/request.ts";
import type { UnknownMember } from "#wire/json/strict.ts";
import { ask, type Place } from "./check/ask.ts";
import { replyText } from "./check/words.ts";
import { paintFor } from "./colour.ts";
import { type Command, readArgs, readInput, type Terminal } from "./command.ts";
import { readTlsFiles, TLS_OPTIONS } from "./tls-files.ts";

const OPTIONS = {
  address: { type: "string" },
  ...TLS_OPTIONS,
  json: { type: "boolean" },
  "control-point": { type: "string" },
  method: { type: "string" },
  path: { type: "string" },
  host: { type: "string" },
  header: { type: "string", multiple: true },
  body: { type: "string" },
  "ramp-mode": { type: "boolean" },
  "expect-end": { type: "boolean" },
} as const;

/** The largest body that an agent accepts. */
const MAX_REQUEST_BYTES = 1024 * 1024;

export const checkCommand: Command = async (args, terminal) => {
  const { values, positionals } = readArgs(args, OPTIONS, true);
  const { address, json, ca, cert, key, ...flags } = values;
  const tls = await readTlsFiles({ ca, cert, key });
  const secure = tls.ca !== undefined || tls.cert !== undefined;
  const place =
    address === undefined ? configuredAddress(terminal, secure) : namedAddress(address, secure);
  const agent = { ...place, tls };
  const request =
    positionals.length === 0
      ? requestOfFlags(flags)
      : await requestFrom(positionals, Object.keys(flags), terminal);
  const reply = await ask(agent, request);
  const text = () => replyText(reply, paintFor(terminal, "out"));
  terminal.out(json === true ? `${JSON.stringify(reply)}\n` : text());
  return reply.check_response.decision_type === "DECISION_TYPE_ACCEPTED"
    ? EXIT.clean
    : EXIT.refused;
};

/** The message does not repeat the text, which may hold a password. */
function namedAddress(text: string, secure: boolean): Place {
  const scheme = secure ? "https" : "http";
  if (UNIX.test(text)) return socketAt(text, scheme);
  const url = text.startsWith("unix:") ? undefined : urlOfServer(text, scheme);
  const unwanted = url === undefined ? unreadable(text) : unwantedPart(url);
  if (url !== undefined && unwanted === undefined) return { url };
  const wanted = "--address: wanted HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/PATH";
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${unwanted}`);
}

const UNIX = /^unix:\/[^\0]/;

/** The host stands for the agent at the socket in the request. */
function socketAt(text: string, scheme: string): Place {
  return { url: new URL(`${scheme}://localhost`), socketPath: text.slice("unix:".length) };
}

function unreadable(text: string): string {
  const [, port] = /:(\d+)\/?$/.exec(text) ?? [];
  return Number(port) > 65_535 ? "a port above 65535" : "something else";
}

function unwantedPart({
  protocol,
  username,
  password,
  pathname,
  search,
  hash,
}: URL): string | undefined {
  if (protocol !== "http:" && protocol !== "https:") return "another scheme";
  if (username !== "" || password !== "") return "one with a user name or password";
  return pathname !== "/" || search !== "" || hash !== ""
    ? "one with a path, query or fragment"
    : undefined;
}

/** The address on which an agent with the same configuration listens. */
function configuredAddress({ env }: Terminal, secure: boolean): Place {
  const { listener, tls } = loadConfig("agent", { env }).config.server;
  const scheme = secure || tls.enabled ? "https" : "http";
  const { addr } = listener;
  if (UNIX.test(addr)) return socketAt(addr, scheme);
  const url = urlOfServer(addr, scheme);
  if (url !== undefined) return { url };
  const got = "none, and server.listener.addr is not part of a URL";
  throw new Fault("INVALID_ARGUMENT", `--address: wanted HOST:PORT or a URL, got ${got}`);
}

/** The request as JSON from a file or standard input. Flags of a request beside it are refused, not ignored. */
async function requestFrom(
  sources: readonly string[],
  flags: readonly string[],
  terminal: Terminal,
): Promise<string> {
  const [source = "-", ...more] = sources;
  if (more.length > 0) {
    throw new Fault("INVALID_ARGUMENT", `check: wanted one FILE, got ${sources.length}`);
  }
  if (flags.length > 0) {
    const got = flags.map((name) => `--${name}`).join(", ");
    throw new Fault(
      "INVALID_ARGUMENT",
      `check: wanted FILE or flags of a request, got FILE and ${got}`,
    );
  }
  const text = await (source === "-"
    ? readInput(terminal, MAX_REQUEST_BYTES)
    : readTextFileOrPipe(source, MAX_REQUEST_BYTES));
  refuseUnknownMembers(text, source === "-" ? "standard input" : source);
  return text;
}

/** An agent ignores members that it does not know, for the sake of other versions; who writes a check by hand misspells one. */
function refuseUnknownMembers(text: string, where: string): void {
  const found: string[] = [];
  const unknown: UnknownMember = (path, known) => {
    const meant = nearest(path.slice(path.lastIndexOf(".") + 1), [...known.keys()]);
    found.push(`${JSON.stringify(path)}${meant === undefined ? "" : ` (did you mean ${meant}?)`}`);
  };
  try {
    checkHttpFromJson(Buffer.from(text), new HeaderNames(Math.random), undefined, unknown);
  } catch (thrown) {
    // What else is wrong the agent says better, by the bounds that it has.
    if (!(thrown instanceof Fault)) throw thrown;
  }
  if (found.length === 0) return;
  const wanted = `check: ${where}: wanted members of a CheckHTTPRequest, got ${found.join(", ")}`;
  throw new Fault("INVALID_ARGUMENT", wanted);
}

type RequestFlags = Omit<
  ReturnType<typeof readArgs<typeof OPTIONS>>["values"],
  "address" | "json" | keyof typeof TLS_OPTIONS
>;

function requestOfFlags(values: RequestFlags): string {
  const headers: Record<string, string> = {};
  for (const header of values.header ?? []) {
    const [, name, value] = /^([^=:]+)[=:]\s*(.*)$/s.exec(header) ?? [];
    if (name === undefined || value === undefined) {
      // The message does not repeat the text: it may be a secret whose = is missing.
      const got = /^[=:]/.test(header) ? "one without NAME" : "one without =";
      throw new Fault("INVALID_ARGUMENT", `--header: wanted NAME=VALUE, got ${got}`);
    }
    headers[name.toLowerCase()] = value;
  }
  const { method = "GET", path = "/", host, body } = values;
  return JSON.stringify({
    control_point: values["control-point"] ?? "ingress",
    ramp_mode: values["ramp-mode"] ?? false,
    expect_end: values["expect-end"] ?? false,
    request: { method, path, host, body, headers },
  });
}

// `sluice check`: asks a running agent whether one request may pass. The request is given as flags or as JSON; the
// decision and its reasons are printed in words or as JSON.

import { Fault } from "#base/fault.ts";
import { urlOfServer } from "#base/net/host-port.ts";
import { loadConfig } from "#config/load.ts";
import { EXIT } from "#runtime/life/run.ts";
import { ask, type Place } from "./check/ask.ts";
import { REQUEST_OPTIONS, requestFrom, requestOfFlags } from "./check/request.ts";
import { replyText } from "./check/words.ts";
import { paintFor } from "./colour.ts";
import { type Command, readArgs, type Terminal } from "./command.ts";
import { readTlsFiles, TLS_OPTIONS } from "./tls-files.ts";

const OPTIONS = {
  address: { type: "string" },
  ...TLS_OPTIONS,
  json: { type: "boolean" },
  ...REQUEST_OPTIONS,
} as const;

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

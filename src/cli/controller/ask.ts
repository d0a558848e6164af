// Calls the JSON routes of a controller, and explains its errors to people.

import { Fault } from "#base/fault.ts";
import { loadConfig } from "#config/load.ts";
import type { FlagsOf } from "../flags.ts";
import {
  type Address,
  addressOfFlag,
  addressText,
  configuredAddress,
  failureText,
  type Json,
  readFlagFile,
  readTlsFiles,
  SPEAKS_TLS,
  send,
  wantsTls,
} from "../server.ts";
import type { CONTROLLER_FLAGS } from "../subcommands.ts";
import type { Terminal } from "../terminal.ts";

/** Milliseconds to wait for a reply: agents that the controller asks have ten seconds. */
const TIMEOUT_MS = 30_000;
const TOKEN = "SVC_CONTROLLER_SERVER_ADMINISTRATION_TOKEN";

export interface Controller {
  /**
   * Resolves to the JSON of the reply. @throws Fault UNAVAILABLE when no controller answers, or INVALID_ARGUMENT with the
   * controller's message when it refuses the call or does not know the name
   */
  call(method: "GET" | "POST" | "DELETE", path: string, body?: object): Promise<Json>;
}

export async function openController(
  flags: FlagsOf<typeof CONTROLLER_FLAGS>,
  terminal: Terminal,
): Promise<Controller> {
  const tls = await readTlsFiles(flags);
  const server = { ...addressOf(flags.controller, terminal, wantsTls(tls)), tls };
  const at = addressText(server);
  const file = await readFlagFile("token-path", flags["token-path"]);
  const token = (file?.toString() ?? terminal.env[TOKEN] ?? "").trim();
  const authorization = token === "" ? undefined : `Bearer ${token}`;
  return {
    call: async (method, path, given) => {
      const body = given && JSON.stringify(given);
      const request = { method, path, body, authorization, timeoutMs: TIMEOUT_MS };
      const { status, json } = await send(server, request).catch((thrown: unknown) => {
        throw noController(at, failureText(thrown, TIMEOUT_MS));
      });
      if (status >= 200 && status < 300 && json !== undefined) return json;
      throw refused(at, status, json?.["message"]);
    },
  };
}

/** The address of the flag or, without it, the one at which a controller with the same configuration serves administration. */
function addressOf(flag: string | undefined, { env }: Terminal, secure: boolean): Address {
  // A Unix socket for administration is served without TLS.
  const schemeOf = (text: string, isTls: boolean) =>
    isTls && !text.startsWith("unix:") ? "https" : "http";
  if (flag !== undefined) return addressOfFlag("--controller", flag, schemeOf(flag, secure));
  const { administration, listener, tls } = loadConfig("controller", { env }).config.server;
  const addr = administration.addr || listener.addr;
  return configuredAddress("--controller", addr, schemeOf(addr, secure || tls.enabled));
}

function noController(at: string, cause: string): Fault {
  const remedy = "name the address of one with --controller";
  return new Fault("UNAVAILABLE", `no controller answers at ${at} (${cause}); ${remedy}`);
}

function refused(at: string, status: number, message: unknown): Fault {
  if (typeof message !== "string") {
    return noController(at, `HTTP ${status}, unlike a controller`);
  }
  const hint =
    status === 401
      ? `; give it with --token-path, or in ${TOKEN}`
      : status === 404 && /no such route|not found/i.test(message) && !/polic|agent/i.test(message)
        ? "; is it a controller?"
        : status === 400 && message === SPEAKS_TLS
          ? "; ask https://"
          : "";
  const code = status >= 500 ? "UNAVAILABLE" : "INVALID_ARGUMENT";
  return new Fault(code, `the controller at ${at} answered ${status}: ${message}${hint}`);
}

// Calls the JSON routes of a controller: where it is, with which credentials, and what its errors mean for people.

import { request as requestHttp } from "node:http";
import { Fault } from "#base/fault.ts";
import { urlOfServer } from "#base/net/host-port.ts";
import { loadConfig } from "#config/load.ts";
import type { Terminal } from "../command.ts";
import { failureText, MAX_REPLY_BYTES, replyText, SPEAKS_TLS } from "../reply.ts";
import { fileOf, readTlsFiles, TLS_OPTIONS, type TlsFiles } from "../tls-files.ts";

/** The flags of every command that calls a controller, for `readArgs`. */
export const CONTROLLER_OPTIONS = {
  controller: { type: "string" },
  ...TLS_OPTIONS,
  "token-path": { type: "string" },
  json: { type: "boolean" },
} as const;

export type ControllerFlags = {
  readonly [Name in keyof typeof CONTROLLER_OPTIONS]?: string | boolean | undefined;
};

/** Milliseconds to wait for a reply: agents that the controller asks have ten seconds. */
const TIMEOUT_MS = 30_000;
const TOKEN = "SVC_CONTROLLER_SERVER_ADMINISTRATION_TOKEN";

interface Target {
  readonly url: URL;
  readonly socketPath?: string;
}

export interface Controller {
  /**
   * The JSON of the reply. @throws Fault UNAVAILABLE when no controller answers, or INVALID_ARGUMENT with its message when
   * it refuses, also because it knows nothing of that name
   */
  call(method: "GET" | "POST" | "DELETE", path: string, body?: object): Promise<Json>;
}

export type Json = Readonly<Record<string, unknown>>;

export async function openController(
  flags: ControllerFlags,
  terminal: Terminal,
): Promise<Controller> {
  const tls = await readTlsFiles(flags);
  const secure = tls.ca !== undefined || tls.cert !== undefined;
  const target =
    typeof flags.controller === "string"
      ? named(flags.controller, secure)
      : configured(terminal, secure);
  const token = await tokenOf(flags["token-path"], terminal);
  return { call: (method, path, body) => call({ target, token, tls }, method, path, body) };
}

async function tokenOf(path: string | boolean | undefined, { env }: Terminal): Promise<string> {
  const file = await fileOf("token-path", path);
  return (file?.toString() ?? env[TOKEN] ?? "").trim();
}

/** The message does not repeat the text, which may hold a password. */
function named(text: string, secure: boolean): Target {
  if (/^unix:\/[^\0]/.test(text)) return socketAt(text);
  const url = urlOfServer(text, secure ? "https" : "http");
  const plain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    `${url.username}${url.password}${url.search}${url.hash}` === "" &&
    url.pathname === "/";
  if (plain) return { url };
  const wanted =
    "--controller: wanted HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/PATH";
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got something else`);
}

/** The address at which a controller with the same configuration serves administration. */
function configured({ env }: Terminal, secure: boolean): Target {
  const { server } = loadConfig("controller", { env }).config;
  const addr = server.administration.addr || server.listener.addr;
  if (addr.startsWith("unix:")) return socketAt(addr);
  const url = urlOfServer(addr, secure || server.tls.enabled ? "https" : "http");
  if (url !== undefined) return { url };
  const got = "none, and server.listener.addr is not part of a URL";
  throw new Fault("INVALID_ARGUMENT", `--controller: wanted HOST:PORT or a URL, got ${got}`);
}

function socketAt(text: string): Target {
  return { url: new URL("http://localhost"), socketPath: text.slice("unix:".length) };
}

interface Connection {
  readonly target: Target;
  readonly token: string;
  readonly tls: TlsFiles;
}

async function call(
  { target, token, tls }: Connection,
  method: "GET" | "POST" | "DELETE",
  path: string,
  body: object | undefined,
): Promise<Json> {
  const { url, socketPath } = target;
  const at = socketPath === undefined ? url.origin : `unix:${socketPath}`;
  const request = url.protocol === "https:" ? (await import("node:https")).request : requestHttp;
  const text = body === undefined ? "" : JSON.stringify(body);
  const { status, reply } = await new Promise<{ status: number; reply: string }>(
    (resolve, reject) => {
      const sent = request(
        new URL(path, url),
        {
          ...tls,
          socketPath,
          method,
          headers: {
            ...(token !== "" && { authorization: `Bearer ${token}` }),
            ...(body !== undefined && { "content-type": "application/json" }),
            "content-length": Buffer.byteLength(text),
          },
          agent: false,
          signal: AbortSignal.timeout(TIMEOUT_MS),
        },
        (response) => {
          replyText(response, MAX_REPLY_BYTES).then(
            (read) => resolve({ status: response.statusCode ?? 0, reply: read }),
            reject,
          );
        },
      );
      sent.on("error", reject);
      sent.end(text);
    },
  ).catch((thrown: unknown) => {
    throw noController(at, failureText(thrown, TIMEOUT_MS));
  });
  const json = jsonOf(reply);
  if (status >= 200 && status < 300 && json !== undefined) return json;
  throw refused(at, status, json?.["message"]);
}

function jsonOf(text: string): Json | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? (read as Json) : undefined;
  } catch {
    return undefined;
  }
}

function noController(at: string, why: string): Fault {
  const remedy = "name the address of one with --controller";
  return new Fault("UNAVAILABLE", `no controller answers at ${at} (${why}); ${remedy}`);
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

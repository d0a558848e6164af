// Calls the HTTP server of an agent or a controller: its address, the TLS files that flags name, one request and its reply.
// Over node:http, because fetch refuses some ports by itself and hides the cause of a failed connection.

import { readFile } from "node:fs/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { Fault, systemErrorText } from "#base/fault.ts";
import { urlOfServer } from "#base/net/host-port.ts";

/** Larger than any reply of an agent or a controller. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

/** Body of the 400 with which a TLS port of Sluice answers HTTP without TLS. */
export const SPEAKS_TLS = "this port speaks TLS";

export type Scheme = "http" | "https";
export type Json = Readonly<Record<string, unknown>>;

export interface Address {
  readonly url: URL;
  /** The Unix socket that replaces the host and port of the URL. */
  readonly socketPath?: string;
}

export interface Server extends Address {
  readonly tls: TlsFiles;
}

export function addressText({ url, socketPath }: Address): string {
  return socketPath === undefined ? url.origin : `unix:${socketPath}`;
}

/**
 * The address that a flag gives.
 * @throws Fault INVALID_ARGUMENT, whose message does not repeat the text, because it may hold a password
 */
export function addressOfFlag(flag: string, text: string, scheme: Scheme): Address {
  const address = addressOf(text, scheme);
  const unwanted = address === undefined ? unreadable(text) : unwantedPart(address.url);
  if (address !== undefined && unwanted === undefined) return address;
  const wanted = `${flag}: wanted HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/PATH`;
  throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${unwanted}`);
}

/** The address at which a server with `server.listener.addr` listens. @throws Fault INVALID_ARGUMENT if it is no URL */
export function configuredAddress(flag: string, text: string, scheme: Scheme): Address {
  const address = addressOf(text, scheme);
  if (address !== undefined) return address;
  const got = "none, and server.listener.addr is not part of a URL";
  throw new Fault("INVALID_ARGUMENT", `${flag}: wanted HOST:PORT or a URL, got ${got}`);
}

function addressOf(text: string, scheme: Scheme): Address | undefined {
  if (/^unix:\/[^\0]/.test(text)) {
    // The host names the server in the request.
    return { url: new URL(`${scheme}://localhost`), socketPath: text.slice("unix:".length) };
  }
  const url = text.startsWith("unix:") ? undefined : urlOfServer(text, scheme);
  return url && { url };
}

function unreadable(text: string): string {
  const [, port] = /:(\d+)\/?$/.exec(text) ?? [];
  return Number(port) > 65_535 ? "a port above 65535" : "something else";
}

function unwantedPart(url: URL): string | undefined {
  const { protocol, username, password, pathname, search, hash } = url;
  if (protocol !== "http:" && protocol !== "https:") return "another scheme";
  if (username !== "" || password !== "") return "one with a user name or password";
  return pathname !== "/" || search !== "" || hash !== ""
    ? "one with a path, query or fragment"
    : undefined;
}

const TLS_FLAGS = ["ca", "cert", "key"] as const;
type TlsFlag = (typeof TLS_FLAGS)[number];

/** The contents of the files that flags name; undefined without the flag. */
export type TlsFiles = Readonly<Record<TlsFlag, Buffer | undefined>>;

/** @throws Fault INVALID_ARGUMENT for an unreadable file, and for a certificate without key or a key without certificate */
export async function readTlsFiles(
  flags: Readonly<Partial<Record<TlsFlag, string | undefined>>>,
): Promise<TlsFiles> {
  const [ca, cert, key] = await Promise.all(
    TLS_FLAGS.map((name) => readFlagFile(name, flags[name])),
  );
  if ((cert === undefined) !== (key === undefined)) {
    throw new Fault("INVALID_ARGUMENT", "wanted --cert and --key together, got one");
  }
  return { ca, cert, key };
}

/** True if the flags ask for TLS. */
export function wantsTls({ ca, cert }: TlsFiles): boolean {
  return ca !== undefined || cert !== undefined;
}

/** The content of the file that the flag `--NAME` names. @throws Fault INVALID_ARGUMENT when it cannot be read */
export async function readFlagFile(
  name: string,
  path: string | undefined,
): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  return readFile(path).catch((thrown: unknown) => {
    const wanted = `--${name}: wanted a file that can be read`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
  });
}

export interface Request {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** JSON. */
  readonly body?: string | undefined;
  readonly authorization?: string | undefined;
  /** For the connection, the request and the whole reply. */
  readonly timeoutMs: number;
  readonly rejectUnauthorized?: boolean;
}

export interface Reply {
  readonly status: number;
  /** The body; undefined unless it is a JSON object. */
  readonly json: Json | undefined;
}

/** Rejects where no server answers; `failureText` then gives the cause. */
export async function send({ url, socketPath, tls }: Server, request: Request): Promise<Reply> {
  const { method, path, body, authorization, timeoutMs, ...more } = request;
  const open = url.protocol === "https:" ? (await import("node:https")).request : requestHttp;
  const headers = {
    ...(authorization !== undefined && { authorization }),
    ...(body !== undefined && { "content-type": "application/json" }),
    "content-length": Buffer.byteLength(body ?? ""),
  };
  const signal = AbortSignal.timeout(timeoutMs);
  const options = { ...tls, ...more, socketPath, method, headers, agent: false, signal };
  const reply = await new Promise<IncomingMessage>((resolve, reject) => {
    const call = open(new URL(path, url), options, resolve);
    call.on("error", reject);
    call.end(body);
  });
  return { status: reply.statusCode ?? 0, json: jsonOf(await textOfReply(reply)) };
}

async function textOfReply(reply: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply) {
    size += chunk.length;
    if (size > MAX_REPLY_BYTES) throw new Error("a reply that is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function jsonOf(text: string): Json | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? { ...read } : undefined;
  } catch {
    return undefined;
  }
}

/** The cause of a failed request: the code of the system error, if there is one. */
export function failureText(thrown: unknown, timeoutMs: number): string {
  if (!(thrown instanceof Error)) return "unknown";
  if (thrown.name === "AbortError" || thrown.name === "TimeoutError") {
    return `nothing within ${timeoutMs / 1_000} s`;
  }
  return "code" in thrown && typeof thrown.code === "string" ? thrown.code : thrown.message;
}

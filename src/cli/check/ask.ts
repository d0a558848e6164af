// Sends one check to an agent and reads its reply. Over node:http, because fetch refuses a list of ports by itself and
// would name another fault than the true one.

import { request as requestHttp } from "node:http";
import { Fault } from "#base/fault.ts";
import { failureText, replyText, SPEAKS_TLS } from "../reply.ts";
import type { TlsFiles } from "../tls-files.ts";
import type { Reply } from "./words.ts";

const ROUTE = "/v1/flowcontrol/checkhttp";

/** Milliseconds to wait for a reply: an agent that takes longer is broken. */
const TIMEOUT_MS = 10_000;

/** Larger than any reply of an agent. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

/** The address of an agent. */
export interface Place {
  readonly url: URL;
  /** The Unix socket that is used in place of the URL's host and port. */
  readonly socketPath?: string;
}

/** An agent with what a connection to it over TLS needs. */
export interface Agent extends Place {
  readonly tls: TlsFiles;
}

/** @throws Fault UNAVAILABLE when no agent answers, or INVALID_ARGUMENT when it refuses the request as malformed. */
export async function ask(agent: Agent, request: string): Promise<Reply> {
  const { status, text } = await send(agent, "POST", ROUTE, request).catch(async (thrown) => {
    throw await whyUnanswered(agent, failureText(thrown, TIMEOUT_MS));
  });
  const body = jsonOf(text);
  const ok = status >= 200 && status < 300;
  if (ok && typeof body?.["check_response"] === "object") return body as unknown as Reply;
  const message = body?.["message"];
  if (ok || typeof message !== "string") {
    throw noAgent(agent, `HTTP ${status} to POST ${ROUTE}, unlike an agent`);
  }
  const code = status < 500 ? "INVALID_ARGUMENT" : "UNAVAILABLE";
  const hint =
    message === "missing control-point"
      ? "; name one with --control-point"
      : message === SPEAKS_TLS
        ? "; ask https://"
        : status === 404
          ? "; is it an agent?"
          : "";
  throw new Fault(code, `the agent at ${nameOf(agent)} answered ${status}: ${message}${hint}`);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function send(
  { url, socketPath, tls }: Agent,
  method: "GET" | "POST",
  path: string,
  body: string,
  more: { readonly rejectUnauthorized?: boolean } = {},
): Promise<Answer> {
  const request = url.protocol === "https:" ? (await import("node:https")).request : requestHttp;
  const length = Buffer.byteLength(body);
  const options = {
    ...tls,
    ...more,
    socketPath,
    method,
    headers: { "content-type": "application/json", "content-length": length },
    agent: false,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  };
  return new Promise((resolve, reject) => {
    const call = request(new URL(path, url), options, (reply) => {
      replyText(reply, MAX_REPLY_BYTES).then(
        (text) => resolve({ status: reply.statusCode ?? 0, text }),
        reject,
      );
    });
    call.on("error", reject);
    call.end(body);
  });
}

function jsonOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? { ...read } : undefined;
  } catch {
    return undefined;
  }
}

/** A TLS code that says that the certificate of the server is not trusted, or is for another name. */
const UNTRUSTED = /CERT|VERIFY|SIGNATURE/;

async function whyUnanswered(agent: Agent, why: string): Promise<Fault> {
  const { url } = agent;
  const secure = url.protocol === "https:";
  const there = await speaks(agent, url.protocol);
  // Without the check of the certificate it answers, so the certificate is what was missed.
  if (secure && there && UNTRUSTED.test(why)) {
    const remedy = "name the authority of its certificate with --ca";
    return new Fault("UNAVAILABLE", `${nameOf(agent)} is not trusted (${why}); ${remedy}`);
  }
  if (there || !(await speaks(agent, secure ? "http:" : "https:"))) return noAgent(agent, why);
  const other = secure ? "it speaks HTTP without TLS: ask http://" : "it speaks TLS: ask https://";
  return noAgent(agent, other);
}

/**
 * Whether a server at that address speaks HTTP with TLS (`https:`) or without it. The errors of one that does not differ
 * from one server to the next, so it is tried.
 */
async function speaks({ url, ...rest }: Agent, protocol: string): Promise<boolean> {
  const other = new URL(url);
  other.protocol = protocol;
  if (url.port === "" && rest.socketPath === undefined) {
    other.port = url.protocol === "https:" ? "443" : "80";
  }
  try {
    // Whether the certificate is good does not matter here, because nothing but the question for its health is sent.
    await send({ url: other, ...rest }, "GET", "/healthz", "", { rejectUnauthorized: false });
    return true;
  } catch (thrown) {
    // A server that demands a client certificate ends the handshake with an alert, which is TLS too.
    const code = thrown instanceof Error && "code" in thrown ? String(thrown.code) : "";
    return protocol === "https:" && /^ERR_SSL_.*(?:CERTIFICATE|HANDSHAKE|ALERT)/.test(code);
  }
}

function nameOf({ url, socketPath }: Place): string {
  return socketPath === undefined ? url.origin : `unix:${socketPath}`;
}

function noAgent(agent: Agent, why: string): Fault {
  const remedy =
    "start one with `sluice standalone --policies DIR`, or name another with --address";
  return new Fault("UNAVAILABLE", `no agent answers at ${nameOf(agent)} (${why}); ${remedy}`);
}

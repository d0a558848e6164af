// Sends one check to an agent and reads its reply. A failed call is explained by its likely cause.

import { Fault } from "#base/fault.ts";
import { addressText, failureText, type Server, SPEAKS_TLS, send } from "../server.ts";
import type { Reply } from "./words.ts";

const ROUTE = "/v1/flowcontrol/checkhttp";

/** Milliseconds to wait for a reply: an agent that takes longer is broken. */
const TIMEOUT_MS = 10_000;

/** @throws Fault UNAVAILABLE when no agent answers, or INVALID_ARGUMENT when it refuses the request as malformed */
export async function ask(agent: Server, request: string): Promise<Reply> {
  const sent = { method: "POST", path: ROUTE, body: request, timeoutMs: TIMEOUT_MS } as const;
  const { status, json } = await send(agent, sent).catch(async (thrown: unknown) => {
    throw await noAnswer(agent, failureText(thrown, TIMEOUT_MS));
  });
  const ok = status >= 200 && status < 300;
  if (ok && typeof json?.["check_response"] === "object") return json as unknown as Reply;
  const message = json?.["message"];
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
  throw new Fault(code, `the agent at ${addressText(agent)} answered ${status}: ${message}${hint}`);
}

/** Matches TLS error codes for a certificate that is not trusted or names another server. */
const UNTRUSTED = /CERT|VERIFY|SIGNATURE/;

async function noAnswer(agent: Server, cause: string): Promise<Fault> {
  const { url } = agent;
  const secure = url.protocol === "https:";
  const answers = await speaks(agent, url.protocol);
  // It answers while the certificate is not verified, so the certificate is the cause.
  if (secure && answers && UNTRUSTED.test(cause)) {
    const remedy = "name the authority of its certificate with --ca";
    return new Fault("UNAVAILABLE", `${addressText(agent)} is not trusted (${cause}); ${remedy}`);
  }
  if (answers || !(await speaks(agent, secure ? "http:" : "https:"))) return noAgent(agent, cause);
  const other = secure ? "it speaks HTTP without TLS: ask http://" : "it speaks TLS: ask https://";
  return noAgent(agent, other);
}

/**
 * True if the server speaks HTTP with TLS (`https:`) or without it. This is tried, because servers fail in too many ways
 * for their errors to tell.
 */
async function speaks({ url, ...rest }: Server, protocol: string): Promise<boolean> {
  const other = new URL(url);
  other.protocol = protocol;
  if (url.port === "" && rest.socketPath === undefined) {
    other.port = url.protocol === "https:" ? "443" : "80";
  }
  // The certificate need not be trusted, because the request contains nothing secret.
  const probe = { method: "GET", path: "/healthz", timeoutMs: TIMEOUT_MS } as const;
  try {
    await send({ url: other, ...rest }, { ...probe, rejectUnauthorized: false });
    return true;
  } catch (thrown) {
    // A server that demands a client certificate ends the handshake with an alert, which is TLS too.
    const code = thrown instanceof Error && "code" in thrown ? String(thrown.code) : "";
    return protocol === "https:" && /^ERR_SSL_.*(?:CERTIFICATE|HANDSHAKE|ALERT)/.test(code);
  }
}

function noAgent(agent: Server, cause: string): Fault {
  const remedy =
    "start one with `sluice standalone --policies DIR`, or name another with --address";
  return new Fault(
    "UNAVAILABLE",
    `no agent answers at ${addressText(agent)} (${cause}); ${remedy}`,
  );
}

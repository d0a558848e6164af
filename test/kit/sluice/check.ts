// Sends checks to a running agent over its JSON route, with a connection of its own for each call so that none stays open.

import { request } from "node:http";

export interface Reply {
  readonly status: number;
  readonly body: string;
}

/** Sends one HTTP request to `host:port`. */
export function call(address: string, method: string, path: string, body?: object): Promise<Reply> {
  const at = address.lastIndexOf(":");
  const [host, port] = [address.slice(0, at), address.slice(at + 1)];
  const headers = { connection: "close", "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, method, path, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: text }));
    });
    sent.on("error", reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Checks a request with these headers at a control point, and returns whether it passes. */
export async function passes(
  address: string,
  controlPoint: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const check = { control_point: controlPoint, request: { method: "GET", path: "/", headers } };
  const { status, body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  if (status !== 200) throw new Error(`the agent answered ${status}: ${body}`);
  return JSON.parse(body).check_response.decision_type === "DECISION_TYPE_ACCEPTED";
}

/** A slot of a concurrency limiter as FlowEnd names it. */
export interface HeldSlot {
  readonly policy_name: string;
  readonly policy_hash: string;
  readonly component_id: string;
  readonly label: string;
  readonly request_id: string;
  readonly tokens: number;
}

export interface BegunFlow {
  readonly accepted: boolean;
  /** The slots that it holds. */
  readonly slots: readonly HeldSlot[];
  /** Tokens that were in flight before, as the first limiter says. */
  readonly inFlight: number;
}

/** Checks a request that its caller will end. */
export async function begin(
  address: string,
  controlPoint: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<BegunFlow> {
  const request = { method: "GET", path: "/", headers };
  const check = { control_point: controlPoint, expect_end: true, request };
  const { status, body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  if (status !== 200) throw new Error(`the agent answered ${status}: ${body}`);
  const { decision_type, limiter_decisions = [] } = JSON.parse(body).check_response;
  const accepted = decision_type === "DECISION_TYPE_ACCEPTED";
  const slots: HeldSlot[] = [];
  for (const decision of limiter_decisions) {
    const info = decision.concurrency_limiter_info ?? decision.concurrency_scheduler_info;
    if (!accepted || !info?.request_id) continue;
    const { policy_name, policy_hash, component_id } = decision;
    const { label, request_id, tokens_info } = info;
    const tokens = Number(tokens_info?.consumed ?? 0);
    slots.push({ policy_name, policy_hash, component_id, label, request_id, tokens });
  }
  const current = limiter_decisions[0]?.concurrency_limiter_info?.tokens_info?.current;
  return { accepted, slots, inFlight: Number(current ?? 0) };
}

/** Ends slots, and returns which of them the agent knew. */
export async function endFlow(
  address: string,
  controlPoint: string,
  slots: readonly HeldSlot[],
): Promise<readonly boolean[]> {
  const end = { control_point: controlPoint, inflight_requests: slots };
  const { status, body } = await call(address, "POST", "/v1/flowcontrol/flowend", end);
  if (status !== 200) throw new Error(`the agent answered ${status}: ${body}`);
  const statuses: { readonly returned?: boolean }[] = JSON.parse(body).token_return_statuses;
  return statuses.map(({ returned }) => returned === true);
}

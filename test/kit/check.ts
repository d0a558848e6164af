// Asks a running agent over its JSON route, one connection a call so that nothing stays open.

import { request } from "node:http";

export interface Asked {
  readonly status: number;
  readonly body: string;
}

/** One HTTP call to `host:port`. */
export function call(address: string, method: string, path: string, body?: object): Promise<Asked> {
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

/** Whether a request with these headers passes at a control point. */
export async function passes(
  address: string,
  controlPoint: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const asked = { control_point: controlPoint, request: { method: "GET", path: "/", headers } };
  const { status, body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", asked);
  if (status !== 200) throw new Error(`the agent answered ${status}: ${body}`);
  return JSON.parse(body).check_response.decision_type === "DECISION_TYPE_ACCEPTED";
}

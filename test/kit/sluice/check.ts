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

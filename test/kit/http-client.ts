// Asks over HTTP/1.1 or HTTP/2 without a library in between that would tidy what is sent.

import { Agent, request } from "node:http";
import { connect, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import type { TestContext } from "node:test";

export interface Asked {
  readonly method?: string;
  readonly path?: string;
  /** Values are sent as latin1: one character, one byte. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export type Client = (asked?: Asked) => Promise<Answer>;

/** Over HTTP/1.1, on as many connections as there are requests at once, at most 100. */
export function http1(test: TestContext, url: string): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  test.after(() => agent.destroy());
  return ({ method = "GET", path = "/", headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const sent = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          name,
          typeof value === "string" ? value : [...value],
        ]),
      );
      const asking = request(url + path, { method, headers: sent, agent }, (reply) => {
        let text = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        reply.on("error", reject);
        reply.on("end", () =>
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, body: text }),
        );
      });
      asking.on("error", reject);
      asking.end(body);
    });
}

/** Over one cleartext HTTP/2 connection. */
export function http2(test: TestContext, url: string): Client {
  const session = connect(url);
  session.on("error", () => undefined);
  test.after(() => session.destroy());
  return ({ method = "GET", path = "/", headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ":method": method, ":path": path, ...headers });
      let heard: IncomingHttpHeaders & IncomingHttpStatusHeader = {};
      let text = "";
      stream.setEncoding("utf8");
      stream.on("response", (headers) => {
        heard = headers;
      });
      stream.on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("error", reject);
      stream.on("end", () =>
        resolve({ status: heard[":status"] ?? 0, headers: heard, body: text }),
      );
      stream.end(body);
    });
}

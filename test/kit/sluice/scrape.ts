// Reads the counters of a running agent from its `/metrics` page, over TCP or a Unix socket, with or without TLS.

import { request as http, type RequestOptions } from "node:http";
import { request as https } from "node:https";

export type Sums = Readonly<Record<string, number>>;

/** Values of a counter, summed by one of its labels. The server's certificate is not verified. */
export async function counted(
  address: string,
  name: string,
  label: string,
  tls = false,
): Promise<Sums> {
  const sums: Record<string, number> = {};
  const sample = new RegExp(`^${name}{(.*?)} (\\d+)$`, "gm");
  const value = new RegExp(`${label}="(.*?)"`);
  for (const [, labels = "", count] of (await scraped(address, tls)).matchAll(sample)) {
    const [, key = ""] = value.exec(labels) ?? [];
    sums[key] = (sums[key] ?? 0) + Number(count);
  }
  return sums;
}

/** The text of the page. */
export function scraped(address: string, tls = false): Promise<string> {
  const colon = address.lastIndexOf(":");
  const options: RequestOptions = {
    ...(address.startsWith("unix:")
      ? { socketPath: address.slice(5) }
      : { host: address.slice(0, colon), port: address.slice(colon + 1) }),
    path: "/metrics",
    headers: { connection: "close" },
  };
  return new Promise((resolve, reject) => {
    const asking = tls ? https({ ...options, rejectUnauthorized: false }) : http(options);
    asking.on("error", reject);
    asking.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("error", reject).on("end", () => {
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`/metrics answered ${response.statusCode}: ${text}`));
      });
    });
    asking.end();
  });
}

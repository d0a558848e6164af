// Drives a server with h2load, a well-known client that must see about the same ratio as the bench's own load
// generator. It sends one key only and reads no replies, so it cannot prove that checks were decided.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { h2load } from "../../../deploy/tools/install.ts";
import type { Target } from "./connection.ts";
import { CHECK_PATH } from "./paths.ts";
import { AUTH_MESSAGE, CONTROL_POINT } from "./requests.ts";

const RESULT = /finished in [^,]+, ([\d.]+) req\/s/;
const SUCCEEDED = /(\d+) succeeded/;

/** Requests per second that h2load measures. */
export function h2loadRate(target: Target, folder: string, requests: number): number {
  const body = join(folder, "check.grpc");
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(AUTH_MESSAGE.length, 1);
  writeFileSync(body, Buffer.concat([prefix, AUTH_MESSAGE]));
  const output = execFileSync(
    h2load(),
    [
      "-n",
      String(requests),
      "-c",
      "8",
      "-m",
      "16",
      "-d",
      body,
      "-H",
      "content-type: application/grpc",
      "-H",
      "te: trailers",
      "-H",
      `control-point: ${CONTROL_POINT}`,
      `http://${target}${CHECK_PATH}`,
    ],
    { encoding: "utf8" },
  );
  if (Number(SUCCEEDED.exec(output)?.[1]) !== requests) throw new Error(`h2load:\n${output}`);
  return Number(RESULT.exec(output)?.[1]);
}

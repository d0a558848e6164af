// h2load as a witness: another client, known to all, must see about the same ratio as the bench's own
// generator. It cannot rotate keys or read replies, so it proves nothing by itself.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { h2load } from "../tools/install.ts";
import type { Target } from "./lane.ts";
import { CHECK_PATH } from "./paths.ts";
import { AUTH_MESSAGE, CONTROL_POINT } from "./requests.ts";

const RESULT = /finished in [^,]+, ([\d.]+) req\/s/;
const SUCCEEDED = /(\d+) succeeded/;

/** Requests per second that h2load got answered. */
export function witness(target: Target, folder: string, requests: number): number {
  const body = join(folder, "check.grpc");
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(AUTH_MESSAGE.length, 1);
  writeFileSync(body, Buffer.concat([prefix, AUTH_MESSAGE]));
  const said = execFileSync(
    h2load(),
    [
      ...["-n", String(requests), "-c", "8", "-m", "16", "-d", body],
      ...["-H", "content-type: application/grpc", "-H", "te: trailers"],
      ...["-H", `control-point: ${CONTROL_POINT}`, `http://${target}${CHECK_PATH}`],
    ],
    { encoding: "utf8" },
  );
  if (Number(SUCCEEDED.exec(said)?.[1]) !== requests) throw new Error(`h2load:\n${said}`);
  return Number(RESULT.exec(said)?.[1]);
}

// Maps a function of a profile to its place: a room of Sluice, a library, or a part of the runtime.

import type { Node } from "./profile.ts";

/** The first match wins. In `serve`, which has several protocols, the place names the folder too. */
const PLACES: readonly (readonly [RegExp, string])[] = [
  [/src\/(h2\/hpack|serve\/(?:grpc-js|grpc|http|listen))\//, "Sluice: $1"],
  [/src\/([^/]+)\//, "Sluice: $1"],
  [/node_modules\/((?:@[^/]+\/)?[^/]+)\//, "$1"],
  [/^node:.*http2/, "node:http2"],
  [/^node:.*(?:_http|http)/, "node:http"],
  [/^node:.*(?:stream|net$|net\b|events|stream_base_commons)/, "node: sockets, streams, events"],
  [/^node:.*(?:timers|task_queues|process|async_hooks|promises)/, "node: timers, ticks, hooks"],
  [/^node:.*buffer/, "node: buffers"],
  [/^node:/, "node: other"],
];

/** Native functions that write to a socket. */
const WRITES =
  /^(?:writev|writeBuffer|writeLatin1String|writeUtf8String|writeAsciiString|shutdown)$/;

export function placeOf(node: Node, callers: readonly Node[]): string {
  const { functionName, url } = node.callFrame;
  if (functionName === "(garbage collector)") return "garbage collection";
  if (functionName === "(program)")
    return "runtime and system outside of functions (reading, polling)";
  if (url === "" && WRITES.test(functionName)) return "writing to sockets (system call)";
  const owner = [node, ...callers].find((one) => one.callFrame.url !== "");
  const source = owner?.callFrame.url ?? "";
  for (const [pattern, place] of PLACES) {
    const match = pattern.exec(source);
    if (match !== null) return place.replace("$1", match[1] ?? "");
  }
  return "other natives";
}

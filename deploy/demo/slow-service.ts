// A service with a known capacity: it works on a number of requests at once, each for a constant time, and lets others wait in
// a queue. It sleeps instead of working, and a late timer costs the next request no time, so it has this capacity on a
// busy machine too.
//
//   node slow-service.ts PORT [SERVERS [MS [QUEUE]]]   capacity: SERVERS * 1000 / MS a second

import { createServer, type ServerResponse } from "node:http";

const [port = 9000, servers = 4, ms = 40, mostWaiting = 100] = process.argv.slice(2).map(Number);

let busy = 0;
const waiting = new Set<ServerResponse>();

/** Works on a request from `start` on. */
function work(response: ServerResponse, start: number): void {
  const end = start + ms;
  setTimeout(() => {
    response.end("done\n");
    const [next] = waiting;
    if (next === undefined) {
      busy--;
      return;
    }
    waiting.delete(next);
    work(next, end);
  }, end - performance.now());
}

const server = createServer((request, response) => {
  request.resume();
  if (busy < servers) {
    busy++;
    work(response, performance.now());
  } else if (waiting.size < mostWaiting) {
    waiting.add(response);
    // A caller that leaves gives up its place.
    response.once("close", () => waiting.delete(response));
  } else {
    response.statusCode = 503;
    response.end("too many wait\n");
  }
});

server.listen(port, "127.0.0.1", () => process.stdout.write(`service on 127.0.0.1:${port}\n`));
process.once("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});

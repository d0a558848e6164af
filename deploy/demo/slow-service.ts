// A service with a limited number of servers and a queue. Near its capacity it is as fast as ever; slightly beyond it,
// every request waits for the whole queue.
//
//   node slow-service.ts PORT [SERVERS [MS [QUEUE]]]   capacity: SERVERS * 1000 / MS a second

import { createServer, type ServerResponse } from "node:http";

const [port = 9000, servers = 4, ms = 40, mostWaiting = 100] = process.argv.slice(2).map(Number);

let busy = 0;
const waiting: ServerResponse[] = [];

function work(response: ServerResponse): void {
  busy++;
  setTimeout(() => {
    busy--;
    response.end("done\n");
    const next = waiting.shift();
    if (next !== undefined) work(next);
  }, ms);
}

const server = createServer((request, response) => {
  request.resume();
  if (busy < servers) work(response);
  else if (waiting.length < mostWaiting) waiting.push(response);
  else {
    response.statusCode = 503;
    response.end("too many wait\n");
  }
});

server.listen(port, "127.0.0.1", () => process.stdout.write(`service on 127.0.0.1:${port}\n`));
process.once("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});

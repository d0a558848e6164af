// The application of the tests with living pods: answers every request with the name of its pod, and finishes what it has
// begun when it is told to end. Where it listens on loopback, the kubelet asks Envoy.

import { createServer } from "node:http";
import { env } from "node:process";

const server = createServer((_request, response) => response.end(`${env["POD"]}\n`));
server.listen(9_000, env["ADDRESS"]);
process.once("SIGTERM", () => {
  server.close();
  server.closeIdleConnections();
});

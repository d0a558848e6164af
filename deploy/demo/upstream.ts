// The service behind the demo's Envoy: says back what reached it, as JSON, so that one sees what the proxy
// and the agent did to a request.

import { createServer } from "node:http";

const port = Number(process.argv[2] ?? 9000);

const server = createServer((request, response) => {
  const { method, url, headers, httpVersion } = request;
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks).toString();
    response.setHeader("content-type", "application/json");
    response.end(`${JSON.stringify({ method, url, httpVersion, headers, body })}\n`);
  });
});

server.listen(port, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") {
    process.stdout.write(`upstream on 127.0.0.1:${address.port}\n`);
  }
});
process.once("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});

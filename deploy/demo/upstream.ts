// The service behind the demo's Envoy: echoes each request as JSON, which shows how the proxy and the agent changed it.
//
//   node upstream.ts PORT [MS]   orders (`/checkout/…`) take MS milliseconds

import { createServer } from "node:http";

const [port = 9000, orderMs = 0] = process.argv.slice(2).map(Number);

const server = createServer((request, response) => {
  const { method, url, headers, httpVersion } = request;
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks).toString();
    response.setHeader("content-type", "application/json");
    const echo = `${JSON.stringify({ method, url, httpVersion, headers, body })}\n`;
    if (orderMs > 0 && url?.startsWith("/checkout/")) setTimeout(() => response.end(echo), orderMs);
    else response.end(echo);
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

// The service behind the demo's Envoy: says back what reached it, as JSON, so that one sees what the proxy
// and the agent did to a request.
//
//   node upstream.ts PORT [MS]   orders (`/checkout/…`) take so long

import { createServer } from "node:http";

const [port = 9000, orderMs = 0] = process.argv.slice(2).map(Number);

const server = createServer((request, response) => {
  const { method, url, headers, httpVersion } = request;
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks).toString();
    response.setHeader("content-type", "application/json");
    const said = `${JSON.stringify({ method, url, httpVersion, headers, body })}\n`;
    if (orderMs > 0 && url?.startsWith("/checkout/")) setTimeout(() => response.end(said), orderMs);
    else response.end(said);
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

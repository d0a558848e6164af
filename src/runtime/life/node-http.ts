// The parts of Node's HTTP/1.1 that Sluice uses. An `import` of `node:http` would read every name that the module exports,
// and by some of them load Node's `fetch` and its streams, which nothing here needs: more than a megabyte.

export const { createServer, STATUS_CODES, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule("node:http");

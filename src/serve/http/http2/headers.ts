// Header fields of an HTTP/2 request in the form of Node's HTTP/1.1 server, so that handlers see no difference.

import type { HttpRequest } from "#base/handler.ts";
import type { RequestHead } from "#h2/exchange.ts";

/** Fields of which only the first value counts (Node's `message.headers`). */
const SINGLE: ReadonlySet<string> = new Set([
  "age",
  "authorization",
  "content-length",
  "content-type",
  "etag",
  "expires",
  "from",
  "host",
  "if-modified-since",
  "if-unmodified-since",
  "last-modified",
  "location",
  "max-forwards",
  "proxy-authorization",
  "referer",
  "retry-after",
  "server",
  "user-agent",
]);

export class Http2Headers {
  readonly headers: HttpRequest["headers"];
  readonly expects100: boolean;

  constructor(head: RequestHead) {
    this.headers = headersOf(head);
    this.expects100 = String(this.headers["expect"]).toLowerCase() === "100-continue";
  }

  /** Computed once for all requests that share the head. */
  static of(head: RequestHead): Http2Headers {
    if (head.memo instanceof Http2Headers) return head.memo;
    const made = new Http2Headers(head);
    head.memo ??= made;
    return made;
  }
}

function headersOf({ fields, authority }: RequestHead): HttpRequest["headers"] {
  // Without a prototype: a field may have the name of one of its members.
  const headers: Record<string, string | string[]> = Object.create(null);
  if (authority !== "") headers["host"] = authority;
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    const earlier = headers[name];
    if (name === "set-cookie") headers[name] = [...(earlier ?? []), value];
    else if (earlier === undefined) headers[name] = value;
    else if (!SINGLE.has(name))
      headers[name] = `${earlier}${name === "cookie" ? "; " : ", "}${value}`;
  }
  return headers;
}

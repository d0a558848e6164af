// The header fields of an HTTP/2 request as Node's own server gives those of HTTP/1.1, so that a handler sees
// no difference between the versions.

import type { Head } from "../h2/exchange.ts";
import type { HttpRequest } from "../handler.ts";

/** Fields of which the first one counts; a list makes no sense for them (Node's `message.headers`). */
const SINGLE: ReadonlySet<string> = new Set([
  ...["age", "authorization", "content-length", "content-type", "etag", "expires", "from", "host"],
  ...["if-modified-since", "if-unmodified-since", "last-modified", "location", "max-forwards"],
  ...["proxy-authorization", "referer", "retry-after", "server", "user-agent"],
]);

export class RequestHead {
  readonly headers: HttpRequest["headers"];
  readonly expects100: boolean;

  constructor(head: Head) {
    this.headers = headersOf(head);
    this.expects100 = String(this.headers["expect"]).toLowerCase() === "100-continue";
  }

  /** Worked out once for all requests that share the head. */
  static of(head: Head): RequestHead {
    if (head.memo instanceof RequestHead) return head.memo;
    const made = new RequestHead(head);
    head.memo ??= made;
    return made;
  }
}

function headersOf({ fields, authority }: Head): HttpRequest["headers"] {
  // Without a prototype: a field may bear the name of one of its members.
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

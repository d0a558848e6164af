// Fields of HTML forms (application/x-www-form-urlencoded): in the body of a request, in its query, or in another text.

import { MALFORMED, type Unreadable } from "../unreadable.ts";

const FORM_TYPE = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i;

/** Whether a body of this type may be a form. Servers read one without a type as whatever they expect. */
export function isFormType(type: string | undefined): boolean {
  return type === undefined || FORM_TYPE.test(type);
}

/** The query of a request target; "" without one. */
export function queryOf(target: string): string {
  const [query = ""] = target.split("#", 1);
  const at = query.indexOf("?");
  return at === -1 ? "" : query.slice(at + 1);
}

/**
 * The value of a field; undefined without one. A field that is there twice cannot be read: which of them a service believes
 * is not known, and clients could choose the other.
 */
export function fieldOf(form: string, name: string): string | Unreadable | undefined {
  let found: string | undefined;
  for (let start = 0; start <= form.length; ) {
    const and = form.indexOf("&", start);
    const end = and === -1 ? form.length : and;
    const equals = form.indexOf("=", start);
    const nameEnd = equals === -1 || equals > end ? end : equals;
    if (decoded(form.slice(start, nameEnd)) === name) {
      const value = decoded(form.slice(nameEnd + 1, end));
      if (value === undefined || found !== undefined) return MALFORMED;
      found = value;
    }
    start = end + 1;
  }
  return found;
}

/** Undefined where a % is not followed by two digits, or the bytes are not UTF-8: servers differ in what they make of it. */
function decoded(text: string): string | undefined {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

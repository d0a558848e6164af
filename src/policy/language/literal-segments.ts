// Segments of path templates that look like a parameter or a wildcard of other template languages. Here they are
// literal text, so the template matches next to no path; the author gets a warning.

/** One sentence for each such segment of a template. */
export function literalSegments(template: string): readonly string[] {
  return template.split("/").flatMap((segment) => {
    const instead = insteadOf(segment);
    return instead === undefined
      ? []
      : [`the segment ${JSON.stringify(segment)} matches only this literal text${instead}`];
  });
}

/** A hint for a segment that looks like something else; undefined for a segment that does not. */
function insteadOf(segment: string): string | undefined {
  if (segment === "*") return undefined;
  if (/^:\w/.test(segment)) return `; a parameter is written {${segment.slice(1)}}`;
  if (segment.includes("*")) return "; a wildcard is * alone, as the last segment";
  const braces = segment.startsWith("{") && segment.endsWith("}");
  return !braces && /[{}]/.test(segment) ? "; a parameter is a whole segment" : undefined;
}

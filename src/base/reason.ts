// Why the operating system refused, in its own few words: fit for a message that says which file it was.

/** `EACCES: permission denied` of a failed system call; anything else by its message. */
export function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "unknown";
  // Node appends the call and the path, which the sentence around it names better.
  return "syscall" in thrown ? (thrown.message.split(",", 1)[0] ?? "unknown") : thrown.message;
}

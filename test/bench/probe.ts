// Preloaded into the server under test: tells the bench, when asked, how much memory the process holds.

process.on("message", (asked) => {
  if (asked !== "held") return;
  globalThis.gc?.();
  globalThis.gc?.();
  // ArrayBuffers are part of `external`.
  const { heapUsed, external } = process.memoryUsage();
  process.send?.(heapUsed + external);
});
process.channel?.unref();

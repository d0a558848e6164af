#!/usr/bin/env node
// The entry of the installed command `sluice`. It is plain JavaScript, so that a Node too old for TypeScript can run it
// and name the version that is needed; the versions are those of `engines` in package.json.

const [major, minor] = process.versions.node.split(".").map(Number);
if (major >= 26 || (major === 24 && minor >= 15)) {
  const { main } = await import("./sluice.ts");
  await main();
} else {
  const wanted = "wanted Node 24.15 (of 24) or 26 and newer";
  const how = "in a checkout `npm ci` brings one, and `npm run -s sluice -- …` uses it";
  process.stderr.write(`sluice: ${wanted}, got ${process.versions.node}; ${how}\n`);
  process.exitCode = 69;
}

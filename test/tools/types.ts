// Checks types and the lint rules that need them with one TypeScript program, because that program is most of the work
// of both. Prints each fault; exits with 1 if there is one.

import { ESLint } from "eslint";
import ts from "typescript";

const host: ts.ParseConfigFileHost = {
  ...ts.sys,
  onUnRecoverableConfigFileDiagnostic: (fault) => {
    throw new Error(ts.flattenDiagnosticMessageText(fault.messageText, "\n"));
  },
};
const project = ts.getParsedCommandLineOfConfigFile("tsconfig.json", {}, host);
if (project === undefined) throw new Error("tsconfig.json cannot be read");
const program = ts.createProgram(project.fileNames, project.options);

const faults = [...project.errors, ...ts.getPreEmitDiagnostics(program)];
process.stdout.write(
  ts.formatDiagnostics(faults, {
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => process.cwd(),
    getNewLine: () => "\n",
  }),
);

const eslint = new ESLint({
  overrideConfigFile: "test/lint/eslint.config.js",
  overrideConfig: {
    languageOptions: { parserOptions: { projectService: false, programs: [program] } },
  },
});
const results = await eslint.lintFiles(["src", "test", "proto", "deploy"]);
const formatter = await eslint.loadFormatter();
process.stdout.write(await formatter.format(results));
const bad = results.some(({ errorCount, warningCount }) => errorCount + warningCount > 0);
if (faults.length > 0 || bad) process.exitCode = 1;

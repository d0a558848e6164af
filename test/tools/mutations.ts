// The changes that mutants make: an operator is swapped, a condition turned round, a number or constant changed, a
// statement left out. Types, imports and messages of errors are left alone.

import ts from "typescript";

/** One change of a file: the text from `from` to `to` becomes `text`. */
export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly from: number;
  readonly to: number;
  /** Offset of what is executed when the change has an effect: the whole expression of a changed operator. */
  readonly at: number;
  readonly was: string;
  readonly text: string;
}

const SWAPPED: ReadonlyMap<string, string> = new Map([
  ["<", "<="],
  ["<=", "<"],
  [">", ">="],
  [">=", ">"],
  ["===", "!=="],
  ["!==", "==="],
  ["+", "-"],
  ["-", "+"],
  ["*", "/"],
  ["/", "*"],
  ["&&", "||"],
  ["||", "&&"],
  ["??", "&&"],
  ["+=", "-="],
  ["-=", "+="],
]);

/** Every mutant of a source file, in the order of the text. */
export function mutantsOf(file: string, source: string): readonly Mutant[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const found: Mutant[] = [];
  const change = (node: ts.Node, text: string, executed = node): void => {
    const at = executed.getStart(tree);
    const [from, to] = [node.getStart(tree), node.getEnd()];
    const line = tree.getLineAndCharacterOfPosition(from).line + 1;
    found.push({ file, line, from, to, at, was: source.slice(from, to), text });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node) || isType(node)) return;
    // Messages of faults are for people.
    if (ts.isThrowStatement(node)) return;
    if (ts.isBinaryExpression(node)) {
      const swapped = SWAPPED.get(node.operatorToken.getText(tree));
      if (swapped !== undefined && !joinsText(node)) change(node.operatorToken, swapped, node);
    } else if (node.kind === ts.SyntaxKind.TrueKeyword) change(node, "false");
    else if (node.kind === ts.SyntaxKind.FalseKeyword) change(node, "true");
    else if (ts.isNumericLiteral(node)) change(node, `(${node.getText(tree)} + 1)`);
    else if (ts.isIfStatement(node)) {
      change(node.expression, `!(${node.expression.getText(tree)})`);
    } else if (ts.isConditionalExpression(node)) {
      change(node.condition, `!(${node.condition.getText(tree)})`);
    } else if (ts.isExpressionStatement(node) && isCall(node.expression)) change(node, ";");
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function isType(node: ts.Node): boolean {
  return ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
}

/** Minus is no operator of texts: such a mutant would be noticed by whatever runs the line. */
function joinsText({ left, right }: ts.BinaryExpression): boolean {
  return [left, right].some(
    (side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side),
  );
}

/** A call for its effect, except of `super`, without which a class cannot be. */
function isCall(expression: ts.Expression): boolean {
  return (
    ts.isCallExpression(expression) && expression.expression.kind !== ts.SyntaxKind.SuperKeyword
  );
}

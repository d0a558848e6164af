// Finds module-level state that could change between calls: two agents may live in one process, so state belongs to
// objects that are created for each. Works on syntax alone: it does not look into calls of our own functions.

import ts from "typescript";

/** Names of types whose every field is readonly, wherever they are declared. */
export type ReadonlyTypes = ReadonlySet<string>;

const FROZEN = new Set(["Object.freeze"]);
/** Standard classes whose instances a module may share, because they have no visible state. */
const STATELESS = new Set(["RegExp", "TextEncoder", "TextDecoder", "URL"]);
const READONLY = /^(readonly |Readonly(Array|Map|Set)?<)/;
/** Standard functions that return something mutable. */
const MUTABLE_FACTORIES =
  /^(Array|Buffer|Object|Map|Set)\.(from|of|fromEntries|create|alloc|assign|groupBy)$/;
const ARRAY_METHODS = new Set(["map", "filter", "flatMap", "flat", "concat", "slice", "split"]);

export function parse(path: string, text: string): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
}

/** Interfaces and object types that are readonly in all their fields. A name that also has a mutable declaration does not count. */
export function readonlyTypes(files: readonly ts.SourceFile[]): ReadonlyTypes {
  const good = new Set<string>();
  const bad = new Set<string>();
  for (const statement of files.flatMap((file) => file.statements)) {
    if (ts.isInterfaceDeclaration(statement)) {
      (statement.members.every(fixed) ? good : bad).add(statement.name.text);
    } else if (ts.isTypeAliasDeclaration(statement)) {
      (readonlyType(statement.type, good) ? good : bad).add(statement.name.text);
    }
  }
  return new Set([...good].filter((name) => !bad.has(name)));
}

function fixed(member: ts.TypeElement): boolean {
  if (!ts.isPropertySignature(member) && !ts.isIndexSignatureDeclaration(member)) return true;
  return member.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ReadonlyKeyword) === true;
}

function readonlyType(type: ts.TypeNode, known: ReadonlyTypes): boolean {
  if (ts.isTypeLiteralNode(type)) return type.members.every(fixed);
  if (ts.isUnionTypeNode(type)) return type.types.every((each) => readonlyType(each, known));
  if (ts.isFunctionTypeNode(type) || ts.isTypeQueryNode(type)) return true;
  if (ts.isLiteralTypeNode(type) || ts.isToken(type)) return true;
  if (READONLY.test(type.getText())) return true;
  return ts.isTypeReferenceNode(type) && known.has(type.typeName.getText());
}

/** One line for each offence of a file: `name: what is wrong`. */
export function moduleState(file: ts.SourceFile, known: ReadonlyTypes): readonly string[] {
  // When several files declare a type of the same name, the one of this file counts.
  const here = new Set([...known, ...readonlyTypes([file])]);
  return file.statements.flatMap((statement) => {
    if (ts.isVariableStatement(statement)) return variables(statement.declarationList, here);
    if (ts.isClassDeclaration(statement)) return statics(statement);
    return [];
  });
}

function variables(list: ts.VariableDeclarationList, known: ReadonlyTypes): readonly string[] {
  return list.declarations.flatMap((each) => {
    const name = each.name.getText();
    if ((list.flags & ts.NodeFlags.Const) === 0) return [`${name}: can be assigned again`];
    const typed = each.type !== undefined && readonlyType(each.type, known);
    if (typed || each.initializer === undefined || !mutable(each.initializer, known)) return [];
    return [`${name}: holds something mutable that is not typed as readonly`];
  });
}

function statics({ name, members }: ts.ClassDeclaration): readonly string[] {
  return members.flatMap((member) => {
    if (!ts.isPropertyDeclaration(member)) return [];
    const flags = ts.getCombinedModifierFlags(member);
    const changes = (flags & ts.ModifierFlags.Readonly) === 0;
    if ((flags & ts.ModifierFlags.Static) === 0 || !changes) return [];
    return [`${name?.text}.${member.name.getText()}: a static field that can be assigned again`];
  });
}

function mutable(value: ts.Expression, known: ReadonlyTypes): boolean {
  if (ts.isParenthesizedExpression(value)) return mutable(value.expression, known);
  if (ts.isAsExpression(value)) {
    const type = value.type.getText();
    if (type === "const" || readonlyType(value.type, known)) return false;
    return mutable(value.expression, known);
  }
  if (ts.isSatisfiesExpression(value)) return mutable(value.expression, known);
  if (ts.isArrayLiteralExpression(value) || ts.isObjectLiteralExpression(value)) return true;
  if (ts.isNewExpression(value)) return !harmless(value);
  if (!ts.isCallExpression(value)) return false;
  const called = value.expression.getText();
  if (FROZEN.has(called)) return false;
  const method = ts.isPropertyAccessExpression(value.expression) && value.expression.name.text;
  return MUTABLE_FACTORIES.test(called) || (method !== false && ARRAY_METHODS.has(method));
}

/** True if this creates an instance of a class without state, or a typed array of length 0. */
function harmless(created: ts.NewExpression): boolean {
  const name = created.expression.getText();
  const [only, ...more] = created.arguments ?? [];
  const empty = /.Array$/.test(name) && more.length === 0 && only?.getText() === "0";
  return STATELESS.has(name) || empty;
}

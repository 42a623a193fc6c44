#!/usr/bin/env node
// Holds keyhop's table of methods against the official TypeScript SDK, so that a method which ACP adds, moves or drops
// is a failure here and not a surprise in use.
//
//   keyhop rules --json | node check_methods.mjs NODE_MODULES        or: node check_methods.mjs NODE_MODULES RULES.json
//
// NODE_MODULES is a directory that holds @agentclientprotocol/sdk. Two sources in it are read, for both protocol
// versions, stable and unstable: the JSON schemas it ships (x-side and x-method: direction and kind), and the method
// constants its code exports. Every method there must be a row with that direction, kind, version and stability, and
// every row that is stable or unstable must be there, but for the exceptions below. Exit status: 0, 1 on a difference
// (each one line on stdout), 2 if something cannot be read.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// Rows that no SDK method stands behind, as "version stability kind direction method", and why they are in the table.
const exceptions = new Map([
  ['v1 stable request both _*', 'stands for every extension'],
  ['v1 stable notification both _*', 'stands for every extension'],
  ['v2 stable request both _*', 'stands for every extension'],
  ['v2 stable notification both _*', 'stands for every extension'],
  ['v2 unstable request client_to_agent session/options', 'named by the RFD "v2 Idempotency Keys" only'],
  ['v2 unstable request client_to_agent mcp/message', 'the RFD lists this direction too, the schema does not'],
]);

const directionOfSide = { agent: 'client_to_agent', client: 'agent_to_client', protocol: 'both', proxy: 'proxy' };
const directionOfConstant = {
  AGENT_METHODS: 'client_to_agent',
  CLIENT_METHODS: 'agent_to_client',
  PROTOCOL_METHODS: 'both',
  PROXY_METHODS: 'proxy',
};
const entries = {
  v1: { stable: '.', unstable: './unstable', retired: './experimental/nes' },
  v2: { stable: './experimental/v2', unstable: './experimental/v2/unstable' },
};

const sorted = (set) => [...set].sort();

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    console.error(`check_methods: cannot read ${path === 0 ? 'stdin' : path}: ${error.message}`);
    process.exit(2);
  }
}

// "kind direction method" of everything that a schema names.
function methodsOfSchema(path) {
  const found = new Set();
  for (const [name, definition] of Object.entries(readJson(path).$defs)) {
    const method = definition['x-method'];
    if (method === undefined || name.endsWith('Response')) continue;
    const kind = name.endsWith('Request') ? 'request' : name.endsWith('Notification') ? 'notification' : name;
    const side = definition['x-side'];
    found.add(`${kind} ${directionOfSide[side] ?? side} ${method}`);
  }
  if (found.size === 0) {
    console.error(`check_methods: ${path} names no methods: its form has changed`);
    process.exit(2);
  }
  return found;
}

// "direction method" of everything that an entry point of the package exports.
async function methodsOfCode(packageDirectory, exported) {
  const found = new Set();
  const module = await import(pathToFileURL(join(packageDirectory, exported.import)).href);
  for (const [name, methods] of Object.entries(module)) {
    if (!name.endsWith('_METHODS')) continue;
    for (const method of Object.values(methods)) found.add(`${directionOfConstant[name] ?? name} ${method}`);
  }
  if (found.size === 0) {
    console.error(`check_methods: ${exported.import} exports no methods: its form has changed`);
    process.exit(2);
  }
  return found;
}

// "version stability kind direction method" by the schemas. What stands in the stable schema is stable; what only the
// unstable one adds is unstable.
function publishedBySchemas(packageDirectory) {
  const published = new Set();
  for (const version of ['v1', 'v2']) {
    const stable = methodsOfSchema(join(packageDirectory, 'schema', version, 'schema.json'));
    const all = methodsOfSchema(join(packageDirectory, 'schema', version, 'schema.unstable.json'));
    for (const method of new Set([...stable, ...all])) {
      published.add(`${version} ${stable.has(method) ? 'stable' : 'unstable'} ${method}`);
    }
  }
  return published;
}

// The same by the code, which does not tell the kind: "version stability direction method". Retired are the methods
// that only the frozen entry point still names.
async function publishedByCode(packageDirectory, exportsOfPackage) {
  const published = new Set();
  for (const [version, byStability] of Object.entries(entries)) {
    const seen = new Set();
    for (const [stability, entry] of Object.entries(byStability)) {
      for (const method of await methodsOfCode(packageDirectory, exportsOfPackage[entry])) {
        if (seen.has(method)) continue;
        seen.add(method);
        published.add(`${version} ${stability} ${method}`);
      }
    }
  }
  return published;
}

// The rows in both forms, one entry a version; those of the given stabilities.
function tableOf(rows, stabilities) {
  const withKind = new Set();
  const withoutKind = new Set();
  for (const row of rows) {
    for (const [version, stability] of Object.entries(row.versions)) {
      if (!stabilities.includes(stability)) continue;
      withKind.add(`${version} ${stability} ${row.kind} ${row.direction} ${row.method}`);
      withoutKind.add(`${version} ${stability} ${row.direction} ${row.method}`);
    }
  }
  return { withKind, withoutKind };
}

async function main() {
  const [modules, rulesPath] = process.argv.slice(2);
  if (modules === undefined) {
    console.error('usage: keyhop rules --json | check_methods.mjs NODE_MODULES [RULES.json]');
    process.exit(2);
  }
  const packageDirectory = resolve(modules, '@agentclientprotocol', 'sdk');
  const description = readJson(join(packageDirectory, 'package.json'));
  const rows = readJson(rulesPath === undefined || rulesPath === '-' ? 0 : rulesPath);
  const bySchemas = publishedBySchemas(packageDirectory);
  const byCode = await publishedByCode(packageDirectory, description.exports);
  const living = tableOf(rows, ['stable', 'unstable']);
  const all = tableOf(rows, ['stable', 'unstable', 'retired']);

  const differences = [];
  for (const method of sorted(bySchemas)) {
    if (!living.withKind.has(method)) differences.push(`missing in keyhop (SDK schema has it): ${method}`);
  }
  for (const method of sorted(byCode)) {
    if (!all.withoutKind.has(method)) differences.push(`missing in keyhop (SDK code exports it): ${method}`);
  }
  for (const row of sorted(living.withKind)) {
    if (!bySchemas.has(row) && !exceptions.has(row)) differences.push(`missing in the SDK (keyhop has it): ${row}`);
  }
  for (const row of exceptions.keys()) {
    if (bySchemas.has(row)) differences.push(`now in the SDK, no exception any more: ${row}`);
    if (!living.withKind.has(row)) differences.push(`excepted, but not in keyhop: ${row}`);
  }

  for (const difference of differences) console.log(difference);
  const counts = `${bySchemas.size} methods of the schemas and ${byCode.size} of the code, ${rows.length} rows`;
  console.log(`${description.name} ${description.version}: ${counts}, ${differences.length} differences`);
  process.exitCode = differences.length === 0 ? 0 : 1;
}

await main();

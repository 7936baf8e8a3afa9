// What localstack.mk needs besides the CDK command line:
//   node localstack.cjs settings URL             the settings to deploy, once LocalStack answers at URL
//   node localstack.cjs upload URL OUTPUTS       samples, to the source of the stack whose outputs are in a file
const fs = require('node:fs');
const path = require('node:path');

const root = path.resolve(__dirname, '../..');
const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));

const fail = (message) => {
  console.error(message);
  process.exit(1);
};

// LocalStack's functions know where it is, and have to name buckets in paths.
async function settings(url) {
  const answer = await fetch(`${url}/_localstack/health`).catch(() => undefined);
  if (!answer?.ok) fail(`no LocalStack answers at ${url}: run make localstack in another terminal, or see docs/emulators.md`);
  const { lockstep } = read(path.join(root, 'cdk.json')).context;
  const environment = { ...lockstep.functions?.environment, LOCKSTEP_S3_PATH_STYLE: 'true' };
  console.log(JSON.stringify({ ...lockstep, functions: { ...lockstep.functions, environment } }));
}

async function upload(url, outputs) {
  if (!fs.existsSync(outputs)) fail(`there is no ${outputs}: run make localstack-deploy first`);
  const { source } = JSON.parse(read(outputs).lockstep.WeatherRun);
  const folder = 'seattle-weather';
  for (const name of fs.readdirSync(path.join(root, 'samples', folder)).filter((name) => name.startsWith('2012-0'))) {
    const key = `${source.prefix}${folder}/${name}`;
    const body = fs.readFileSync(path.join(root, 'samples', folder, name));
    const answer = await fetch(`${url}/${source.bucket}/${key}`, { method: 'PUT', body });
    if (!answer.ok) fail(`s3://${source.bucket}/${key}: ${answer.status} ${await answer.text()}`);
    console.log(`uploaded s3://${source.bucket}/${key}`);
  }
}

const [command, ...given] = process.argv.slice(2);
const commands = { settings, upload };
if (!commands[command]) fail(`it is ${Object.keys(commands).join(' or ')}, not ${command}`);
commands[command](...given);

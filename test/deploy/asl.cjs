// Asks the language service of AWS's own editor about a state machine; it knows
// rules that a schema cannot say, such as states that nobody reaches.
const { readFileSync } = require('node:fs')
const { getLanguageService, TextDocument } = require('amazon-states-language-service')

async function main(path) {
  const document = TextDocument.create(`file://${path}`, 'asl', 1, readFileSync(path, 'utf8'))
  const service = getLanguageService({})
  const problems = await service.doValidation(document, service.parseJSONDocument(document))
  for (const { message, range } of problems) {
    console.error(`${path}:${range.start.line + 1}: ${message}`)
  }
  if (problems.length > 0) process.exit(1)
  console.log(`amazon-states-language-service: ${path} is in order`)
}

main(process.argv[2]).catch((error) => {
  console.error(error)
  process.exit(1)
})

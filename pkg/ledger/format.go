package ledger

// Format is the version of the head that this package writes. It reports a newer
// one as a *NewerError, and an older one as an *OutdatedError: Reset converts it.
const Format = schemaVersion

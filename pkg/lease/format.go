package lease

// Format is the version of the lock's document that this package writes. It
// reads older ones, and reports a newer one as a *NewerError.
const Format = schemaVersion

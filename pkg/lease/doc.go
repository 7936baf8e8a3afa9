// Package lease is a distributed lock kept in one small document of a
// versioned register, such as an object in S3.
//
// Two clients that give the same owner are one owner to the lock, and hold it
// together: so a call that is repeated finds its own grant. Whoever is to exclude
// others needs an owner that nobody else has; see UniqueOwner.
//
// It promises that
//   - at most Limit owners hold the lock at a time, provided that a holder
//     stops when its context or its Grant says so;
//   - fencing tokens only grow, over every grant the document ever gave,
//     through release, expiry, break and repair;
//   - a holder that vanished is succeeded as soon as its time is over by the
//     server's clock, also by a client that has never seen the lock before;
//   - a holder learns that it lost the lock, or can no longer prove that it
//     has it, before anybody else can get it;
//   - waiters are served by priority, then arrival; one that stops asking
//     blocks nobody for longer than three times its poll interval plus 30 s;
//   - an owner that lives once (Config.Once) and has ended gets neither the lock
//     nor a renewal again, by whatever call of it comes late;
//   - a reply that got lost is found out by reading back, never guessed;
//   - several locks are taken in one order that all agree on, or not at all.
//
// It does not promise that a process which ignores its deadline is stopped:
// only a consumer that refuses old fencing tokens can do that. It trusts
// the register to compare and swap atomically, and its clock to step by no
// more than Config.Grace less the clock's resolution. It trusts no client's
// wall clock. Should somebody delete the document, the tokens of the next one
// begin above all that were granted; a holder learns of it at its next renewal.
//
// Files named state_*.go are the lock itself: pure functions from a document,
// a request and a server time to the next document and an answer. Everything
// else carries them to the register and back.
package lease

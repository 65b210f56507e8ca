// Package identity implements keys and rights. It holds the exact texts that are signed (payload, statement, roster),
// the roster of keys and rights, the verifier that every process of writ uses, join tokens, and the byte strings of
// proofs between machines. It must not know HTTP, SQL, Redis or the script language. Package identity/sshsig makes and
// verifies SSH signatures, and identity/envelope signs the messages between supervisors and nodes.
//
// All signed texts have the same form: header lines in a fixed order, "key: value" with one space, UTF-8, LF, and no
// control characters. Parsing is strict by re-encoding: a text is accepted only if this package would write the parsed
// values as exactly the same bytes. Each rule about a value is therefore implemented only once, in the writer.
package identity

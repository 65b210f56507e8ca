// Package identity knows who may make what happen: SSH signatures, the exact texts that are signed (payload, statement, roster), the
// roster of keys and rights, the verifier that every process of writ uses, join tokens and the byte strings of the proofs
// between machines. It must not know HTTP, SQL, Redis or the language of scripts. Package identity/envelope has the signed bytes between
// supervisors and nodes.
//
// Everything that is signed looks the same: header lines in a fixed order, "key: value" with one space, UTF-8, LF, no control
// characters. Parsing is strict by writing again: a text is accepted only if it is byte for byte what this package writes for the
// values found in it, so every rule about a value stands once, in the writer.
package identity

// Package evaluator carries out passes of scripts: in children of this process, which a script can at worst take down with itself
// (Pool), or in this process (InProcess). It knows processes and their limits; it must not know what a script means, nor what its
// calls are for.
package evaluator

package sqldb

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// This file saves system calls. SQLite appends each page of a commit to its log with two writes, and there are about twenty pages, of which
// nothing counts before the sync that ends the commit. So what goes to the log is gathered in memory and written in one piece, right before
// the log is synced, read, measured, cut or closed, and by the same call that the single writes would have made.
//
// That is safe because every commit is synced (synchronous=FULL): no other connection, and no process after this one, looks at pages of the
// log before the index of the log has them, and they come there after the sync. What fails to be written fails the sync, which undoes
// the transaction like a write that fails. Where SQLite fills a log up to the end of a sector after that sync, nothing is gathered.

// gatheringVFS is by which name connections ask for it.
const gatheringVFS = "writ"

// maxGatheredLog is how much of a log is held in memory: the pages of most commits. SQLite writes less than 128 KiB at once. Only a connection
// that writes has it.
const maxGatheredLog = 124 << 10

// What SQLite does with files, and with logs among them, is in tables of functions: its own, and those of here, which it keeps the addresses
// of for as long as the process lives.
var (
	plainVFS, walVFS sqlite3.Tsqlite3_vfs

	walMu            sync.Mutex // guards the first use of what follows
	plainLogs        uintptr    // where SQLite has the table that plainLog is a copy of
	plainLog, walLog sqlite3.Tsqlite3_io_methods
)

// registerVFS makes gatheringVFS known to SQLite, once in a process.
var registerVFS = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if found == 0 {
		return errors.New("SQLite knows no files")
	}
	name, err := libc.CString(gatheringVFS) // never freed
	if err != nil {
		return err
	}
	plainVFS = *at[sqlite3.Tsqlite3_vfs](found)
	walVFS = plainVFS
	walVFS.FpNext, walVFS.FzName = 0, name
	walVFS.FszOsFile = int32(logAt() + unsafe.Sizeof(gatheredLog{}))
	walVFS.FxOpen = address(openFile)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&walVFS)), 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("SQLite takes no other files: code %d", rc)
	}
	return nil
})

// gatheredLog stands behind what SQLite itself keeps of an open log.
type gatheredLog struct {
	pages uintptr // maxGatheredLog bytes, 0 before the first of them
	size  int32   // of what is gathered
	from  int64   // where it belongs in the file
}

func logAt() uintptr { return (uintptr(plainVFS.FszOsFile) + 7) &^ 7 }

func logOf(file uintptr) *gatheredLog { return at[gatheredLog](file + logAt()) }

// at is what is at an address of SQLite's own memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// address is that of a function, as SQLite in Go has it.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function is the function at an address.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ at uintptr }{address})) }

type (
	openFunc    = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, given uintptr) int32
	closeFunc   = func(tls *libc.TLS, file uintptr) int32
	moveFunc    = func(tls *libc.TLS, file, bytes uintptr, n int32, from int64) int32
	cutFunc     = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc    = func(tls *libc.TLS, file uintptr, flags int32) int32
	measureFunc = func(tls *libc.TLS, file, size uintptr) int32
	controlFunc = func(tls *libc.TLS, file uintptr, what int32, with uintptr) int32

	propertiesFunc = func(tls *libc.TLS, file uintptr) int32
)

func openFile(tls *libc.TLS, _, name, file uintptr, flags int32, given uintptr) int32 {
	rc := function[openFunc](plainVFS.FxOpen)(tls, uintptr(unsafe.Pointer(&plainVFS)), name, file, flags, given)
	if rc != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	methods := &at[sqlite3.Tsqlite3_file](file).FpMethods
	walMu.Lock()
	defer walMu.Unlock()
	if plainLogs == 0 {
		plainLogs, plainLog = *methods, *at[sqlite3.Tsqlite3_io_methods](*methods)
		walLog = plainLog
		walLog.FxClose, walLog.FxRead, walLog.FxWrite = address(closeLog), address(readLog), address(writeLog)
		walLog.FxTruncate, walLog.FxSync, walLog.FxFileSize, walLog.FxFileControl = address(cutLog), address(syncLog), address(measureLog), address(controlLog)
	}
	properties := function[propertiesFunc](plainLog.FxDeviceCharacteristics)(tls, file)
	if *methods == plainLogs && properties&sqlite3.SQLITE_IOCAP_POWERSAFE_OVERWRITE != 0 {
		*logOf(file) = gatheredLog{}
		*methods = uintptr(unsafe.Pointer(&walLog))
	}
	return rc
}

// writeLog gathers bytes that follow what was gathered before.
func writeLog(tls *libc.TLS, file, bytes uintptr, n int32, from int64) int32 {
	l := logOf(file)
	if l.size > 0 && (from != l.from+int64(l.size) || l.size+n > maxGatheredLog) {
		if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if l.pages == 0 {
		l.pages = sqlite3.Xsqlite3_malloc(tls, maxGatheredLog)
	}
	if l.pages == 0 || n > maxGatheredLog {
		return function[moveFunc](plainLog.FxWrite)(tls, file, bytes, n, from)
	}
	if l.size == 0 {
		l.from = from
	}
	copy(unsafe.Slice(at[byte](l.pages+uintptr(l.size)), n), unsafe.Slice(at[byte](bytes), n))
	l.size += n
	return sqlite3.SQLITE_OK
}

// flush writes what was gathered. If that fails it is gone: whoever is told undoes the transaction.
func flush(tls *libc.TLS, file uintptr) int32 {
	l := logOf(file)
	if l.size == 0 {
		return sqlite3.SQLITE_OK
	}
	n := l.size
	l.size = 0
	return function[moveFunc](plainLog.FxWrite)(tls, file, l.pages, n, l.from)
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	rc := flush(tls, file)
	if l := logOf(file); l.pages != 0 {
		sqlite3.Xsqlite3_free(tls, l.pages)
		l.pages = 0
	}
	return max(rc, function[closeFunc](plainLog.FxClose)(tls, file))
}

func readLog(tls *libc.TLS, file, bytes uintptr, n int32, from int64) int32 {
	if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[moveFunc](plainLog.FxRead)(tls, file, bytes, n, from)
}

func cutLog(tls *libc.TLS, file uintptr, size int64) int32 {
	if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[cutFunc](plainLog.FxTruncate)(tls, file, size)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[syncFunc](plainLog.FxSync)(tls, file, flags)
}

func measureLog(tls *libc.TLS, file, size uintptr) int32 {
	if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[measureFunc](plainLog.FxFileSize)(tls, file, size)
}

func controlLog(tls *libc.TLS, file uintptr, what int32, with uintptr) int32 {
	if rc := flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[controlFunc](plainLog.FxFileControl)(tls, file, what, with)
}

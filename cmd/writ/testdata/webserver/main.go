// Command webserver answers with the value of VERSION on port 80 until it gets SIGTERM. If BROKEN is set, it is never
// healthy.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	version, broken := os.Getenv("VERSION"), os.Getenv("BROKEN") != ""
	if broken {
		fmt.Println("cannot reach the database")
	}
	server := &http.Server{Addr: ":80", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, version)
	})}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(limited)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-ended
}

package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asStranger calls do on a thread that owns no file, under any user.
func asStranger(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // Never unlocked: the thread ends with the goroutine.
		_ = unix.Setfsuid(65534)
		do()
	}()
	<-done
}

// TestWideDirectoryIsRefused uses a data directory that others can read and that
// belongs to another user: nothing is changed, and the message names the remedies.
func TestWideDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	data := filepath.Join(os.TempDir(), "decan-test-"+strings.ReplaceAll(t.Name(), "/", "-"))
	if os.Geteuid() != 0 {
		data = "/" // It belongs to another user.
	} else {
		if err := os.Mkdir(data, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		defer os.Remove(data)
		if err := os.Chmod(data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asStranger(func() {
		err := protectDataDir(data, accessOwner, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Error("a world-readable directory is accepted")
			return
		}
		for _, want := range []string{data + " has mode 0", "chmod 0700", "--data-access any"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the message does not say %q: %v", want, err)
			}
		}
		if err := protectDataDir(data, accessAny, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	if info, err := os.Stat(data); err != nil || info.Mode().Perm()&0o077 == 0 {
		t.Errorf("a directory that was refused was changed: %v %v", info.Mode(), err)
	}
	if _, err := (Config{Storage: StorageOptions{Access: "everybody"}}).complete(); err == nil || !strings.Contains(err.Error(), "use owner, group or any") {
		t.Errorf("got %v", err)
	}
}

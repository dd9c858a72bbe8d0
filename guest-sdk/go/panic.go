package guest

import (
	"fmt"
	paths "path"
	"runtime"
	"runtime/debug"
	"strings"
)

const (
	sdk = "modelhost.example/guest"
	// Most bytes of a panic's text, callers that are looked at, and frames that are told.
	longestText, mostCallers, mostFrames = 1000, 128, 20
)

// panicked is a panic of the handler as an error: a line with the place in the handler's own files that is nearest to
// it, then the frames of those files.
type panicked struct {
	line   string
	frames []string
}

func (p *panicked) Error() string { return strings.Join(append([]string{p.line}, p.frames...), "\n") }

// panickedBy makes one, in the deferred function that recovered the panic: its caller's frames are below that.
func panickedBy(cause any) *panicked {
	var callers [mostCallers]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	module := ""
	if build, is := debug.ReadBuildInfo(); is {
		module = build.Main.Path
	}
	var told []string
	place, left := "", 0
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		file := ownFile(frame.Function, frame.File, module)
		if file == "" {
			continue
		}
		at := fmt.Sprintf("(%s:%d)", file, frame.Line)
		if place == "" {
			place = " " + at
		}
		if len(told) < mostFrames {
			told = append(told, fmt.Sprintf("    %s %s", paths.Base(frame.Function), at))
		} else {
			left++
		}
	}
	if left > 0 {
		told = append(told, fmt.Sprintf("    … %d more", left))
	}
	text := strings.Join(strings.Fields(fmt.Sprint(cause)), " ")
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return &panicked{"panic: " + text + place, told}
}

// ownFile is the path of a function's file in its module, if that is the handler's; else it is empty. The package says in
// which folder the file is: the path of the machine that built it tells nothing.
func ownFile(function, file, module string) string {
	last := strings.LastIndexByte(function, '/') + 1
	end := strings.IndexByte(function[last:], '.')
	if end < 0 {
		return ""
	}
	within := function[:last+end]
	switch {
	case within == "main" || within == module && within != sdk:
		return paths.Base(file)
	case module != "" && module != sdk && strings.HasPrefix(within, module+"/"):
		return paths.Join(within[len(module)+1:], paths.Base(file))
	}
	return ""
}

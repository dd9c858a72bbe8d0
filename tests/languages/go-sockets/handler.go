// An application of sockets, and of requests that are served together.
package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/router"
	"modelhost.example/guest/websocket"
)

func init() {
	router.WebSocket("/echo", echo)
	router.WebSocket("/refused", refuse)
	router.WebSocket("/slow", wait)
	router.WebSocket("/rooms/{room}", room)
	router.Batch("/sums", sums)
}

func main() {}

// echo says again what it hears, until it hears `bye`; how the client closes is in the log.
func echo(socket *websocket.Socket, _ *guest.Context) error {
	if slices.Contains(socket.Protocols(), "chat") {
		if err := socket.Accept("chat"); err != nil {
			return err
		}
	}
	for message := range socket.Messages() {
		if message.Kind == websocket.Text && string(message.Data) == "bye" {
			return socket.Close(3001, "bye")
		}
		if err := socket.Send(message); err != nil {
			return err
		}
	}
	closed := socket.Closed()
	fmt.Printf("the client closed with %d %q\n", closed.Code, closed.Reason)
	return nil
}

// refuse answers the handshake as a request.
func refuse(*websocket.Socket, *guest.Context) error {
	response, err := guest.JSON(map[string]string{"no": "entry"})
	if err != nil {
		return err
	}
	return guest.Respond(response.WithStatus(403))
}

// wait has little patience.
func wait(socket *websocket.Socket, _ *guest.Context) error {
	_, err := socket.ReceiveTimeout(50 * time.Millisecond)
	switch {
	case errors.Is(err, websocket.ErrTimeout):
		return socket.SendText("late")
	case err != nil:
		return err
	}
	return socket.SendText("early")
}

var waste []byte

// room does what its texts ask.
func room(socket *websocket.Socket, context *guest.Context) error {
	if context.PathValue("room") == "none" {
		return guest.Invalid("no such room")
	}
	for {
		message, err := socket.Receive()
		if err != nil {
			// It ends as the client wants it.
			return err
		}
		switch said := string(message.Data); said {
		case "where":
			key, _ := context.Header("x-user")
			err = socket.SendJSON([]string{context.PathValue("room"), context.Query(), key})
		case "waste":
			for range 128 {
				waste = make([]byte, 64<<10)
			}
			err = socket.SendText("wasted")
		case "long":
			err = sent(socket, socket.SendText(strings.Repeat("x", 2<<20)))
		case "bytes":
			err = sent(socket, socket.SendText("\xff"))
		case "code":
			err = sent(socket, socket.Close(1005, ""))
		case "late":
			if err = socket.Close(3002, "late"); err == nil {
				fmt.Printf("after the close: %v\n", socket.SendText("late"))
			}
		case "panic":
			err = socket.SendText(strconv.Itoa(1 / (len(said) - len("panic"))))
		case "fail":
			err = errors.New("failed, as asked")
		}
		if err != nil {
			return err
		}
	}
}

// sent tells the client why something was not sent.
func sent(socket *websocket.Socket, err error) error {
	if err == nil {
		return errors.New("it was sent")
	}
	return socket.SendText(err.Error())
}

// sums answers each list of numbers with its sum, and with how many requests were read.
func sums(requests []*app.Request) ([]app.Result, error) {
	all := make([][]float64, len(requests))
	for at, request := range requests {
		if err := request.JSON(&all[at]); err != nil {
			return nil, err
		}
	}
	results := make([]app.Result, len(requests))
	for at, numbers := range all {
		sum := 0.0
		for _, number := range numbers {
			sum += number
		}
		results[at].Response, results[at].Err = guest.JSON(map[string]any{"sum": sum, "of": len(requests)})
	}
	return results, nil
}

// An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json.
package main

import (
	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/router"
)

func init() {
	router.Handle("POST /form", form)
	router.Handle("GET /cookies", cookies)
}

func main() {}

type told struct {
	Name     string  `json:"name"`
	Filename *string `json:"filename"`
	Type     string  `json:"type"`
	Size     int     `json:"size"`
	Sum      int     `json:"sum"`
}

func form(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	form, err := sample.Multipart()
	if err != nil {
		return nil, err
	}
	parts := make([]told, 0, len(form))
	for _, part := range form {
		it := told{Name: part.Name, Type: part.ContentType, Size: len(part.Body)}
		if part.IsFile {
			it.Filename = &part.Filename
		}
		for _, each := range part.Body {
			it.Sum += int(each)
		}
		parts = append(parts, it)
	}
	return guest.JSON(map[string]any{"parts": parts})
}

func cookies(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	return guest.Text("baked").Add("set-cookie", "a=1").Add("set-cookie", "b=2"), nil
}

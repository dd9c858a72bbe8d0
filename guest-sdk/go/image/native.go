//go:build !wasip1

package image

func prepare(file []byte, preparation *Preparation) (*Picture, error) {
	if answer == nil {
		return nil, &Error{Unusable, "the test does not say what comes of a file: image.AnswerWith"}
	}
	return answer(file, *preparation)
}

func inspect([]byte) (Info, error) {
	return Info{}, &Error{Unusable, "a test looks at no files"}
}

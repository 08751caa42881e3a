;;;; How many workers this process should have, by CFFI.

(defpackage :creel
  (:use :common-lisp)
  (:export #:workers))

(in-package :creel)

(cffi:define-foreign-library libcreel (:unix "libcreel_abi.so"))
(cffi:use-foreign-library libcreel)

(cffi:defcfun ("creel_workers" workers) :unsigned-int
  "The usable cores, fractions of a quota cut off; at least 1.")

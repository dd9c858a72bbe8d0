//! Non-maximum suppression.
//!
//! In:  boxes, their scores and classes. Out: the places of those that stay.
//! Invariant: with `n` boxes of which `m` stay the time is that of `n * m` comparisons.

use crate::shape::{extents, room};
use crate::values::{floats, integers};
use crate::{Datatype, Tensor};

/// What a box has to keep to, to stay.
pub struct Limits {
    pub most_overlap: f32,
    pub least_score: f32,
    /// 0 for any number.
    pub most: usize,
}

/// See `arithmetic.suppress`.
pub fn suppress(
    boxes: &Tensor,
    scores: &Tensor,
    classes: Option<&Tensor>,
    limits: &Limits,
) -> Result<Tensor, String> {
    let (of_boxes, of_scores) = (extents(boxes)?, extents(scores)?);
    let (&[count], &[rows, 4]) = (of_scores.as_slice(), of_boxes.as_slice()) else {
        return Err(format!("boxes of {of_boxes:?} with scores of {of_scores:?}, expected [n, 4] and [n]"));
    };
    let classes = match classes {
        Some(classes) if extents(classes)? == [count] => Some(integers(classes, "classes")?),
        Some(classes) => return Err(format!("classes of {:?}, expected [{count}]", classes.shape)),
        None => None,
    };
    if rows != count {
        return Err(format!("{rows} boxes with {count} scores"));
    }
    let corners = floats(boxes, "boxes")?;
    let scores = floats(scores, "scores")?;
    let mut candidates: Vec<Candidate> = corners
        .as_chunks::<4>()
        .0
        .iter()
        .zip(&scores)
        .enumerate()
        .filter(|(_, (_, score))| **score >= limits.least_score)
        .map(|(at, (corners, score))| Candidate {
            at,
            score: *score,
            corners: *corners,
            class: classes.as_ref().and_then(|classes| classes.get(at)).copied().unwrap_or(0),
        })
        .collect();
    candidates.sort_by(|one, other| other.score.total_cmp(&one.score));
    let most = if limits.most == 0 { usize::MAX } else { limits.most };
    let mut kept: Vec<&Candidate> = Vec::new();
    for candidate in &candidates {
        if kept.len() >= most {
            break;
        }
        if !kept.iter().any(|better| better.overlap(candidate) > limits.most_overlap) {
            kept.push(candidate);
        }
    }
    let mut data = room(Some(kept.len()), Datatype::Int64)?;
    data.extend(kept.iter().flat_map(|candidate| (candidate.at as i64).to_le_bytes()));
    Ok(Tensor { datatype: Datatype::Int64, shape: vec![kept.len() as u64], data })
}

struct Candidate {
    at: usize,
    score: f32,
    corners: [f32; 4],
    class: i64,
}

impl Candidate {
    /// Intersection over union; 0 for boxes of different classes.
    fn overlap(&self, other: &Candidate) -> f32 {
        let ([left, top, right, bottom], [l, t, r, b]) = (self.corners, other.corners);
        let area = |width: f32, height: f32| width.max(0.0) * height.max(0.0);
        let both = area(right.min(r) - left.max(l), bottom.min(b) - top.max(t));
        if self.class != other.class || both == 0.0 {
            return 0.0;
        }
        both / (area(right - left, bottom - top) + area(r - l, b - t) - both)
    }
}
